// 4-bit weights [depth, columns / 2], whose rows have scales of their own: (nibble - 8) * scale of the column's group
// and of the row.
// Bindings: weight (words), scales [groups, depth or more].

fn weight_quad(k: u32, column: u32) -> vec4<f32> {
  var v = vec4<f32>();
  if (k < params.depth) {
    for (var lane = 0u; lane < 4u; lane++) {
      let byte = k * params.weight_pitch + ((column + lane) >> 1u);
      let nibble = (weight[byte >> 2u] >> ((byte & 3u) * 8u + ((column + lane) & 1u) * 4u)) & 15u;
      v[lane] = (f32(nibble) - 8.0) *
                load_scales((column + lane) / params.group_size * params.sections[0].scales_pitch + k);
    }
  }
  return v;
}

// The first of four neighbouring columns.
alias Columns4 = u32;
fn columns_at(batch: u32, section: u32, column: u32) -> Columns4 {
  return column;
}
fn run_shift(run: u32) -> u32 {
  return 0u;
}

// 4 x 4 weights: a vector of four columns for each of k, k + 1, k + 2 and k + 3; zero past the depth.
fn weights_at(column: Columns4, shift: u32, k: u32) -> mat4x4<f32> {
  return mat4x4<f32>(weight_quad(k, column), weight_quad(k + 1u, column), weight_quad(k + 2u, column),
                     weight_quad(k + 3u, column));
}
