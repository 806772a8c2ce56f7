// A matrix product of few rows for GPUs: the 64 lanes of a workgroup share one row and four columns. Neighbouring lanes
// read neighbouring parts of the same columns' weights, so each load of the workgroup is one run of memory, and add
// their sums in a tree in workgroup memory.
//! uses: product_params, product_write
//! slots: chunk
//
// On a discrete GPU (4-bit, K 2048, N 8192, one row): 8 MB of weights and 2 MB of scales (groups of 32) are read once;
// x is 8 KB and stays in the nearest cache. 2048 workgroups, 131072 lanes, each with four 16-byte loads under way:
// enough to hide the latency of memory. Six barriers of 64 lanes end a workgroup, while others load. 80 % of the
// bandwidth is to be expected; with rows of less than 2048 nibbles some lanes idle, and it is less.

// Room for 64 lanes.
var<workgroup> sums: array<vec4<f32>, 64>;

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) id: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>) {
  var place = place_by_rows(group_index(id, groups));
  if (place.batch >= params.batches) {
    return;
  }
  var gate = vec4<f32>();
  for (var part = 0u; part <= GATED; part++) {
    place.section += part;
    var sum = vec4<f32>();
    for (var k = lane * CHUNK; k < params.depth; k += WG * CHUNK) {
      sum += chunk_sum(place, k);
    }
    sums[lane] = sum;
    for (var half = WG / 2u; half > 0u; half /= 2u) {
      workgroupBarrier();
      if (lane < half) {
        sums[lane] += sums[lane + half];
      }
    }
    // Lane 0 has the sum; the others may start over when it has read it.
    if (part < GATED) {
      if (lane == 0u) {
        gate = sums[0];
      }
      workgroupBarrier();
    }
  }
  if (lane == 0u) {
    write(place, place.row, place.column, gate, sums[0]);
  }
}
