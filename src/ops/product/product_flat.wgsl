// A matrix product whose result cannot be written one column at a time (float16) nor by rows of whole quads: a thread
// makes four neighbouring elements, which may belong to two rows or more. Elements of other columns stay as they are.
//! uses: product_params, product_x
//! slots: weights, epilogue, activation

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  let s = params.sections[0];
  let count = params.batches * params.rows * s.result_width;
  if (quad >= (count + 3u) / 4u) {
    return;
  }
  var values = load4_result(quad);
  var lane = 0u;
  while (lane < 4u && 4u * quad + lane < count) {
    let row = (4u * quad + lane) / s.result_width;
    let at = (4u * quad + lane) % s.result_width;
    if (at < s.result_first || at >= s.result_first + s.width) {
      lane++;
      continue;
    }
    let column = at - s.result_first;
    let batch = row / params.rows;
    let x_batch = batch % params.x_batches;
    let columns = columns_at(batch, 0u, column);
    var sum = vec4<f32>();
    for (var run = 0u; run < params.runs; run++) {
      let shift = run_shift(run);
      for (var k = 0u; k < params.run; k += 4u) {
        sum += weights_at(columns, shift, k) * x_quad(x_batch, row % params.rows, run * params.run + k);
      }
    }
    sum = activation(epilogue(sum, x_batch * params.rows + row % params.rows, at));
    let end = min(4u, lane + s.width - column);
    for (var j = lane; j < end; j++) {
      values[j] = sum[j - lane];
    }
    lane = end;
  }
  store4_result(quad, values);
}
