// Weights [columns, depth], floats or bytes: four columns of a product are four rows here.

fn weight_quad(i: u32, k: u32) -> vec4<f32> {
  var v = vec4<f32>();
  if (WEIGHT_QUADS == 1u) {
    v = vec4<f32>(load4_weight(i >> 2u));
  } else {
    v.x = f32(load_weight(i));
    if (k + 1u < params.depth) {
      v.y = f32(load_weight(i + 1u));
    }
    if (k + 2u < params.depth) {
      v.z = f32(load_weight(i + 2u));
    }
    if (k + 3u < params.depth) {
      v.w = f32(load_weight(i + 3u));
    }
  }
  return v;
}

// Where the first of four neighbouring columns begins.
alias Columns4 = u32;
fn columns_at(batch: u32, section: u32, column: u32) -> Columns4 {
  return batch * params.weight_batch + (params.sections[section].weight_first + column) * params.weight_pitch;
}
fn run_shift(run: u32) -> u32 {
  return 0u;
}

// 4 x 4 weights: a vector of four columns for each of k, k + 1, k + 2 and k + 3; zero past the depth.
fn weights_at(columns: Columns4, shift: u32, k: u32) -> mat4x4<f32> {
  let pitch = params.weight_pitch;
  let i = columns + k;
  return transpose(mat4x4<f32>(weight_quad(i, k), weight_quad(i + pitch, k), weight_quad(i + 2u * pitch, k),
                               weight_quad(i + 3u * pitch, k)));
}

// Of one column at k to k + 3; neighbouring lanes are to take neighbours along the columns, or along k.
const ALONG_COLUMNS = false;
fn quad_at(batch: u32, section: u32, column: u32, shift: u32, k: u32) -> vec4<f32> {
  return weight_quad(columns_at(batch, section, column) + k, k);
}
