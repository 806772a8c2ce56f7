// A matrix product for CPU adapters: a thread makes 1 or 4 rows by 16 columns in registers, with no barrier. Memory
// is what costs there: each lane's loads are done one by one. Four rows by 16 columns take 20 vec4 loads for 256
// multiplications.
//! uses: product_params, product_x, product_write
//! slots: weights, rows

fn quad(batch: u32, row: u32, k: u32) -> vec4<f32> {
  return x_quad(batch, row, k);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  // The lanes of a vector share their rows of x, which stay in the nearest cache.
  var place = place_by_columns(thread_index(id, groups));
  if (place.batch >= params.batches) {
    return;
  }
  var gates = array<X, 4>();
  for (var part = 0u; part <= GATED; part++) {
    place.section += part;
    let columns0 = columns_at(place.batch, place.section, place.column);
    let columns1 = columns_at(place.batch, place.section, place.column + 4u);
    let columns2 = columns_at(place.batch, place.section, place.column + 8u);
    let columns3 = columns_at(place.batch, place.section, place.column + 12u);
    var sum0 = X();
    var sum1 = X();
    var sum2 = X();
    var sum3 = X();
    for (var run = 0u; run < params.runs; run++) {
      let shift = run_shift(run);
      for (var k = 0u; k < params.run; k += 4u) {
        let x = x_rows(place, run * params.run + k);
        sum0 += weights_at(columns0, shift, k) * x;
        sum1 += weights_at(columns1, shift, k) * x;
        sum2 += weights_at(columns2, shift, k) * x;
        sum3 += weights_at(columns3, shift, k) * x;
      }
    }
    var sums = array<X, 4>(sum0, sum1, sum2, sum3);
    if (part < GATED) {
      gates = sums;
    } else {
      for (var block = 0u; block < TILE_COLUMNS / 4u; block++) {
        write_rows(place, place.column + 4u * block, gates[block], sums[block]);
      }
    }
  }
}
