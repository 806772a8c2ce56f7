// A matrix product of many rows for GPUs: a workgroup of 128 makes 32 rows by 64 columns, each thread 4 by 4 of them.
// x and the weights, 32 deep, pass through workgroup memory, where 4-bit weights are unpacked once for all rows.
//! proven: if its tiles fit
//! uses: product_params, product_write
//! slots: weights
//
// On a discrete GPU (4-bit, K 2048, N 2048, 128 rows): the 2 MB of weights are read 4 times, x (1 MB) 32 times, mostly
// from the second cache, as neighbouring workgroups share their columns. 128 workgroups of 128, and 12 KB of workgroup
// memory each, so several live on one core. Two barriers per 32 k, between them 512 multiplications a thread from 64
// vec4 loads of workgroup memory. That is bound by arithmetic and workgroup memory: a third of the peak is to be
// expected, far above what the weights' bandwidth would ask for.

const TILE_QUADS = 8u;  // of k
// Room for 32 rows and 64 columns.
var<workgroup> x_tile: array<vec4<f32>, 256>;       // [row, quad of k]
var<workgroup> weight_tile: array<vec4<f32>, 512>;  // [k, four columns]

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) id: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>) {
  var place = place_by_rows(group_index(id, groups));
  if (place.batch >= params.batches) {
    return;
  }
  let row = lane / 16u * 4u;
  let column = lane % 16u;  // four of them
  var gate = mat4x4<f32>();
  for (var part = 0u; part <= GATED; part++) {
    place.section += part;
    let columns = columns_at(place.batch, place.section, place.column + 4u * column);
    var sum = mat4x4<f32>();
    // Of a run, so many steps; the last may reach past its end.
    let steps = (params.run + 4u * TILE_QUADS - 1u) / (4u * TILE_QUADS);
    for (var step = 0u; step < params.runs * steps; step++) {
      let run = step / steps;
      let k = (step - run * steps) * 4u * TILE_QUADS;
      for (var i = lane; i < TILE_ROWS * TILE_QUADS; i += WG) {
        let at = k + i % TILE_QUADS * 4u;
        var v = vec4<f32>();
        if (at < params.run) {
          v = x_quad(place.x_batch, place.row + i / TILE_QUADS, run * params.run + at);
        }
        x_tile[i] = v;
      }
      var w = mat4x4<f32>();
      if (k + row < params.run) {
        w = weights_at(columns, run_shift(run), k + row);
      }
      weight_tile[row * 16u + column] = w[0];
      weight_tile[(row + 1u) * 16u + column] = w[1];
      weight_tile[(row + 2u) * 16u + column] = w[2];
      weight_tile[(row + 3u) * 16u + column] = w[3];
      workgroupBarrier();
      for (var q = 0u; q < TILE_QUADS; q++) {
        let x = mat4x4<f32>(x_tile[row * TILE_QUADS + q], x_tile[(row + 1u) * TILE_QUADS + q],
                            x_tile[(row + 2u) * TILE_QUADS + q], x_tile[(row + 3u) * TILE_QUADS + q]);
        let at = 4u * q * 16u + column;
        sum += mat4x4<f32>(weight_tile[at], weight_tile[at + 16u], weight_tile[at + 32u], weight_tile[at + 48u]) * x;
      }
      workgroupBarrier();
    }
    if (part < GATED) {
      gate = sum;
    } else {
      write(place, place.row + row, place.column + 4u * column, gate[0], sum[0]);
      write(place, place.row + row + 1u, place.column + 4u * column, gate[1], sum[1]);
      write(place, place.row + row + 2u, place.column + 4u * column, gate[2], sum[2]);
      write(place, place.row + row + 3u, place.column + 4u * column, gate[3], sum[3]);
    }
  }
}
