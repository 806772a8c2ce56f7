// 4-bit weights [depth, columns / 2], whose rows have scales of their own: (nibble - 8) * scale of the column's group
// and of the row.
// Bindings: weight (words), scales [groups, depth or more].

fn element_at(k: u32, column: u32) -> f32 {
  var v = 0.0;
  if (k < params.depth) {
    let byte = k * params.weight_pitch + (column >> 1u);
    let nibble = (weight[byte >> 2u] >> ((byte & 3u) * 8u + (column & 1u) * 4u)) & 15u;
    v = (f32(nibble) - 8.0) * load_scales(column / params.group_size * params.sections[0].scales_pitch + k);
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

// Of one column at k to k + 3.
const ALONG_COLUMNS = true;
fn quad_at(batch: u32, section: u32, column: u32, shift: u32, k: u32) -> vec4<f32> {
  return vec4<f32>(element_at(k, column), element_at(k + 1u, column), element_at(k + 2u, column),
                   element_at(k + 3u, column));
}

// 4 x 4 weights: a vector of four columns for each of k, k + 1, k + 2 and k + 3; zero past the depth.
fn weights_at(column: Columns4, shift: u32, k: u32) -> mat4x4<f32> {
  return transpose(mat4x4<f32>(quad_at(0u, 0u, column, 0u, k), quad_at(0u, 0u, column + 1u, 0u, k),
                               quad_at(0u, 0u, column + 2u, 0u, k), quad_at(0u, 0u, column + 3u, 0u, k)));
}
