// Elements picked by indices along one dimension, or by several (then `ids` are distances): a thread copies a piece of a
// run, or makes four elements, each found by itself.
// Bindings: source, ids, result, perhaps fault.
//! uses: walk, two_strides, pieces
//! slots: type, distance

fn source_at(i: u32) -> u32 {
  let at = place(i);
  return at.x + distance_of(at.y);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.threads) {
    return;
  }
  if (params.vectors > 0u) {
    copy_piece(i);
    return;
  }
  var values: vec4<T>;
  for (var lane = 0u; lane < 4u; lane++) {
    values[lane] = load_source(source_at(min(4u * i + lane, params.count - 1u)));
  }
  store4_result(i, values);
}

// How far from the start the index at a position leads. One past the end is reported, and leads nowhere.
//! module: row_of_index
fn distance_of(position: u32) -> u32 {
  let index = load_ids(position);
  let row = bitcast<u32>(select(index, index + i32(params.rows), index < 0));
  if (row >= params.rows) {
    report_fault_at(params.node, params.site, position, index);
    return 0u;
  }
  return row * params.row_stride;
}

// The same, worked out before.
//! module: known_distance
fn distance_of(position: u32) -> u32 {
  return bitcast<u32>(load_ids(position));
}
