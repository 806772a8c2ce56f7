// A product of bytes as product_i8 makes it, for few rows on GPUs and for great depths: 64 lanes share one row and four
// columns. Each lane's sums are exact in i32; those of all lanes are added as floats.
//! uses: product_i8_params
//
// On a discrete GPU (K 2048, N 8192, one row): 16 MB of weights are read once, in runs of 1 KB.

var<workgroup> sums: array<vec4<f32>, 64>;

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) id: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>) {
  let tile = group_index(id, groups);
  let row = tile / params.column_tiles;
  if (row >= params.rows) {
    return;
  }
  let column = tile % params.column_tiles * 4u;
  var total = vec4<i32>();
  for (var k = 16u * lane; k < params.depth; k += 16u * WG) {
    let w = columns_at(column, k, params.depth - k);
    let x = sixteen(x_bytes(row * params.x_pitch + k));
    total += vec4<i32>(dot16(w.a, x), dot16(w.b, x), dot16(w.c, x), dot16(w.d, x)) - params.zero * sums_of(w);
  }
  sums[lane] = vec4<f32>(total);
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      sums[lane] += sums[lane + half];
    }
  }
  if (lane == 0u) {
    finish(row, column, sums[0]);
  }
}
