// Weights [depth, columns]: four neighbours of a row are four columns of a product.

fn weight_quad(i: u32, k: u32, column: u32) -> vec4<f32> {
  var v = vec4<f32>();
  if (k < params.depth) {
    if (WEIGHT_QUADS == 1u) {
      v = load4_weight(i >> 2u);
    } else {
      v.x = load_weight(i);
      if (column + 1u < params.weight_pitch) {
        v.y = load_weight(i + 1u);
      }
      if (column + 2u < params.weight_pitch) {
        v.z = load_weight(i + 2u);
      }
      if (column + 3u < params.weight_pitch) {
        v.w = load_weight(i + 3u);
      }
    }
  }
  return v;
}

// Where four neighbouring columns are.
struct Columns4 {
  first: u32,
  column: u32,
}
fn columns_at(batch: u32, section: u32, column: u32) -> Columns4 {
  return Columns4(batch * params.weight_batch + column, column);
}
fn run_shift(run: u32) -> u32 {
  return 0u;
}

// 4 x 4 weights: a vector of four columns for each of k, k + 1, k + 2 and k + 3; zero past the depth.
fn weights_at(columns: Columns4, shift: u32, k: u32) -> mat4x4<f32> {
  let pitch = params.weight_pitch;
  let i = columns.first + k * pitch;
  let column = columns.column;
  return mat4x4<f32>(weight_quad(i, k, column), weight_quad(i + pitch, k + 1u, column),
                     weight_quad(i + 2u * pitch, k + 2u, column), weight_quad(i + 3u * pitch, k + 3u, column));
}

// Of one column at k to k + 3.
const ALONG_COLUMNS = true;
fn element_at(i: u32, k: u32) -> f32 {
  var v = 0.0;
  if (k < params.depth) {
    v = load_weight(i + k * params.weight_pitch);
  }
  return v;
}
fn quad_at(batch: u32, section: u32, column: u32, shift: u32, k: u32) -> vec4<f32> {
  let i = batch * params.weight_batch + column;
  return vec4<f32>(element_at(i, k), element_at(i, k + 1u), element_at(i, k + 2u), element_at(i, k + 3u));
}
