// Rows of a table of any element type: one thread copies four neighbouring output elements. They are one vec4 of one
// row where the width is a multiple of four (ALIGNED), else they may belong to two rows or more.
// Bindings: weight, ids, result, perhaps fault.

struct Params {
  id_count: u32,
  width: u32,
  table_rows: u32,
  row_begin: u32,
  row_end: u32,
  node: u32,
  weight_first: u32,
}
@group(0) @binding(0) var<uniform> params: Params;

override ALIGNED: u32 = 0u;

// The row for an id, or table_rows if this dispatch has nothing to write for it.
fn row_of(position: u32) -> u32 {
  let token = load_ids(position);
  let row = u32(token);
  if (row >= params.table_rows) {
    report_fault(params.node, position, token);
    return params.table_rows;
  }
  if (row < params.row_begin || row >= params.row_end) {
    return params.table_rows;
  }
  return row;
}

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
  // Loaded for its type; the padding of a whole result is nobody's.
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
