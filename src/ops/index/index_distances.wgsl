// How far from the start of a tensor several index tensors lead together: a dispatch adds the share of one of them,
// repeated to the shape of all. One thread makes one number.
// Bindings: ids, distances (i32), fault.

struct Params {
  count: u32,
  rank: u32,
  is_first: u32,
  rows: u32,        // that an index may name
  row_stride: u32,  // the distance between two of them
  node: u32,
  site: u32,
  sizes: array<vec4<u32>, 2>,
  id_strides: array<vec4<u32>, 2>,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.count) {
    return;
  }
  var rest = i;
  var position = 0u;
  for (var d = params.rank; d > 0u; d--) {
    let k = d - 1u;
    let size = params.sizes[k >> 2u][k & 3u];
    let above = rest / size;
    position += (rest - above * size) * params.id_strides[k >> 2u][k & 3u];
    rest = above;
  }
  let index = load_ids(position);
  var row = bitcast<u32>(select(index, index + i32(params.rows), index < 0));
  if (row >= params.rows) {
    report_fault_at(params.node, params.site, position, index);
    row = 0u;
  }
  var distance = bitcast<i32>(row * params.row_stride);
  if (params.is_first == 0u) {
    distance += load_distances(i);
  }
  store_distances(i, distance);
}
