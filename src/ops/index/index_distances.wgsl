// How far from the start of a tensor several index tensors lead together: a dispatch adds the share of one of them,
// repeated to the shape of all. One thread makes one number.
// Bindings: ids, distances (i32), fault.
//! uses: walk, one_stride, row_of_index

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.count) {
    return;
  }
  var distance = bitcast<i32>(distance_of(place(i)));
  if (params.is_first == 0u) {
    distance += load_distances(i);
  }
  store_distances(i, distance);
}
