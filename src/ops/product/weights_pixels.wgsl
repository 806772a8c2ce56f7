// Pixels [batches, height, width, run] as the columns of a product: the depth of a column is the runs under a filter's
// taps. All runs are whole vec4s, and all that a filter touches is there, so nothing needs to be checked. All steps count
// elements: from the pixels of a result's row to those of the next (pixel_row) and of its neighbour (pixel_column), from
// a tap to the one below (tap_row) and beside it (tap_column).
// Bindings: weight.

// The vec4s where four neighbouring columns begin.
alias Columns4 = vec4<u32>;
fn columns_at(batch: u32, section: u32, column: u32) -> Columns4 {
  let pixel = vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u);
  let row = pixel / params.pixel_width;
  let at = row * params.pixel_row + (pixel - row * params.pixel_width) * params.pixel_column;
  return (batch * params.weight_batch + at) >> vec4<u32>(2u);
}
fn run_shift(run: u32) -> u32 {
  let row = run / params.tap_width;
  return (row * params.tap_row + (run - row * params.tap_width) * params.tap_column) >> 2u;
}

fn weights_at(columns: Columns4, shift: u32, k: u32) -> mat4x4<f32> {
  let i = columns + (shift + (k >> 2u));
  return transpose(mat4x4<f32>(load4_weight(i.x), load4_weight(i.y), load4_weight(i.z), load4_weight(i.w)));
}

// Of one column at k to k + 3.
const ALONG_COLUMNS = false;
fn quad_at(batch: u32, section: u32, column: u32, shift: u32, k: u32) -> vec4<f32> {
  return load4_weight(columns_at(batch, section, column).x + (shift + (k >> 2u)));
}
