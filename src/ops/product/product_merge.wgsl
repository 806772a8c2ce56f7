// Adds up what the splits of a depth left, and finishes the product: a thread makes four neighbouring columns of a row.
// Bindings: partial, and what the finish needs.
//! uses: product_params, product_partial_at, product_write

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  var place = place_by_columns(thread_index(id, groups));
  if (place.batch >= params.batches) {
    return;
  }
  place.section += GATED;
  var gate = vec4<f32>();
  var sum = vec4<f32>();
  for (; place.split < params.splits; place.split++) {
    sum += load4_partial(partial_at(place, place.section, place.row, place.column));
    if (GATED == 1u) {
      gate += load4_partial(partial_at(place, 0u, place.row, place.column));
    }
  }
  write(place, place.row, place.column, gate, sum);
}
