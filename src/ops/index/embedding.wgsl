// Rows of a table of any element type: one thread copies four neighbouring output elements. They are one vec4 of one
// row where the width is a multiple of four (ALIGNED), else they may belong to two rows or more.
// Bindings: weight, ids, result, perhaps fault.
//! uses: embedding_rows

override ALIGNED: u32 = 0u;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  let count = params.id_count * params.width;
  if (quad >= (count + 3u) / 4u) {
    return;
  }
  if (ALIGNED == 1u) {
    let per_row = params.width / 4u;
    let position = quad / per_row;
    let row = row_of(position);
    if (row < params.table_rows) {
      store4_result(quad, load4_weight((row - params.weight_first) * per_row + quad - position * per_row));
    }
    return;
  }
  // Loaded for its type; the padding after the last element has no meaning.
  var values = load4_result(quad);
  for (var lane = 0u; lane < 4u; lane++) {
    let element = min(4u * quad + lane, count - 1u);
    let position = element / params.width;
    let row = row_of(position);
    if (row < params.table_rows) {
      values[lane] = load_weight((row - params.weight_first) * params.width + element - position * params.width);
    }
  }
  store4_result(quad, values);
}
