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

// 4 x 4 weights: a vector of four columns for each of k, k + 1, k + 2 and k + 3; zero past the depth.
fn weights_at(batch: u32, section: u32, column: u32, k: u32) -> mat4x4<f32> {
  let pitch = params.weight_pitch;
  let i = batch * params.weight_batch + k * pitch + column;
  return mat4x4<f32>(weight_quad(i, k, column), weight_quad(i + pitch, k + 1u, column),
                     weight_quad(i + 2u * pitch, k + 2u, column), weight_quad(i + 3u * pitch, k + 3u, column));
}
