// Rows of a 4-bit table, for any even width and any group size: one thread makes four neighbouring output elements,
// which may belong to two rows. Where the table is in shards, elements of other shards keep what they have.
// Bindings: weight (words), scales, ids, result, perhaps zeros, fault.
//! uses: embedding_rows
//! slots: zeros

override LINEAR: u32 = 1u;  // 1: the even element is the low nibble
override PARTIAL: u32 = 0u;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  let count = params.id_count * params.width;
  if (quad >= (count + 3u) / 4u) {
    return;
  }
  var values = vec4<f32>(0.0);
  if (PARTIAL == 1u) {
    values = load4_result(quad);
  }
  for (var lane = 0u; lane < 4u; lane++) {
    let element = min(4u * quad + lane, count - 1u);
    let position = element / params.width;
    let column = element - position * params.width;
    let row = row_of(position);
    if (row >= params.table_rows) {
      continue;
    }
    let byte = (row - params.weight_first) * (params.width / 2u) + column / 2u;
    let high = (column & 1u) == LINEAR;
    let nibble = (weight[byte >> 2u] >> ((byte & 3u) * 8u + select(0u, 4u, high))) & 15u;
    let group = column / params.group_size;
    let scale = load_scales((row - params.scales_first) * params.groups + group);
    values[lane] = (f32(i32(nibble) - 8) - zero_at(row, group)) * scale;
  }
  store4_result(quad, values);
}

//! module: no_zero_points
fn zero_at(row: u32, group: u32) -> f32 {
  return 0.0;
}

//! module: zero_points
fn zero_at(row: u32, group: u32) -> f32 {
  return f32(load_zeros((row - params.zeros_first) * params.groups + group));
}
