// What fills the slots of the kernels of products.

// How a kernel writes four neighbouring columns of one row.
//! module: product_write
//! uses: product_params
//! slots: epilogue, activation, store
fn silu(v: vec4<f32>) -> vec4<f32> {
  return v / (vec4<f32>(1.0) + exp(-v));
}

// Finishes and writes four neighbouring columns of one row.
fn write(place: Place, row: u32, column: u32, gate: vec4<f32>, sum: vec4<f32>) {
  let s = params.sections[place.section];
  if (row < params.rows && column < s.width) {
    var v = sum;
    if (GATED == 1u) {
      v = silu(gate) * sum;
    }
    let at = s.result_first + column;
    v = activation(epilogue(v, place.x_batch * params.rows + row, at));
    store(place.section, (place.batch * params.rows + row) * s.result_width + at, v, s.width - column);
  }
}

// Where a split leaves its sums of four columns: [split, batch, row, four columns of all sections].
//! module: product_partial_at
//! uses: product_params
fn partial_at(place: Place, section: u32, row: u32, column: u32) -> u32 {
  var before = 0u;
  var all = 0u;
  for (var s = 0u; s < 3u; s++) {
    before = select(before, all, s == section);
    all += (params.sections[s].width + 3u) / 4u;
  }
  return ((place.split * params.batches + place.batch) * params.rows + row) * all + before + column / 4u;
}

// In the place of product_write: product_merge does the rest.
//! module: product_write_partial
//! uses: product_partial_at
fn write(place: Place, row: u32, column: u32, gate: vec4<f32>, sum: vec4<f32>) {
  if (row < params.rows && column < params.sections[place.section].width) {
    store4_partial(partial_at(place, place.section, row, column), sum);
    if (GATED == 1u) {
      store4_partial(partial_at(place, 0u, row, column), gate);
    }
  }
}

// X is x at four k, or sums at four columns: of one row, or of four.
//! module: product_one_row
alias X = vec4<f32>;
const ROWS = 1u;
fn x_rows(p: Place, k: u32) -> X {
  return quad(p.x_batch, p.row, k);
}
fn row_of(x: X, row: u32) -> vec4<f32> {
  return x;
}
fn write_rows(p: Place, column: u32, gates: X, sums: X) {
  write(p, p.row, column, gates, sums);
}

//! module: product_four_rows
alias X = mat4x4<f32>;
const ROWS = 4u;
fn x_rows(p: Place, k: u32) -> X {
  return X(quad(p.x_batch, p.row, k), quad(p.x_batch, p.row + 1u, k), quad(p.x_batch, p.row + 2u, k),
           quad(p.x_batch, p.row + 3u, k));
}
fn row_of(x: X, row: u32) -> vec4<f32> {
  var rows = x;
  return rows[row];
}
fn write_rows(p: Place, column: u32, gates: X, sums: X) {
  write(p, p.row, column, gates[0], sums[0]);
  write(p, p.row + 1u, column, gates[1], sums[1]);
  write(p, p.row + 2u, column, gates[2], sums[2]);
  write(p, p.row + 3u, column, gates[3], sums[3]);
}

// An epilogue works on four columns of one row, which is counted through all batches of x; params.alpha is 1 where
// nobody set it.
//! module: epilogue_scale
fn epilogue(v: vec4<f32>, row: u32, column: u32) -> vec4<f32> {
  return params.alpha * v;
}

// A scale for each column, and perhaps a bias.
//! module: epilogue_columns
//! slots: bias
fn epilogue(v: vec4<f32>, row: u32, column: u32) -> vec4<f32> {
  return v * vec4<f32>(load_scales(column), load_scales(column + 1u), load_scales(column + 2u),
                       load_scales(column + 3u)) + bias(column);
}

//! module: bias_of_columns
fn bias(column: u32) -> vec4<f32> {
  return vec4<f32>(load_addend(column), load_addend(column + 1u), load_addend(column + 2u), load_addend(column + 3u));
}

//! module: bias_of_none
fn bias(column: u32) -> vec4<f32> {
  return vec4<f32>();
}

//! module: epilogue_addend
fn epilogue(v: vec4<f32>, row: u32, column: u32) -> vec4<f32> {
  let i = row * params.addend_row + column * params.addend_column;
  let step = params.addend_column;
  let addend = vec4<f32>(load_addend(i), load_addend(i + step), load_addend(i + 2u * step),
                         load_addend(i + 3u * step));
  // By zero, an infinite addend would be no number.
  return params.alpha * v + select(params.beta * addend, vec4<f32>(), params.beta == 0.0);
}

//! module: activation_none
fn activation(v: vec4<f32>) -> vec4<f32> {
  return v;
}

// NaN stays.
//! module: activation_clamp
fn activation(v: vec4<f32>) -> vec4<f32> {
  let is_nan = (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
  return select(clamp(v, vec4<f32>(params.low), vec4<f32>(params.high)), v, is_nan);
}

// A store writes up to four elements from element i of a section's result on.
//! module: store_quads
fn store(section: u32, i: u32, v: vec4<f32>, count: u32) {
  store4_result(i >> 2u, v);
}

// As bytes: params.inverse is 1 / scale of the result, which has a zero point.
//! module: store_rounded
fn store(section: u32, i: u32, v: vec4<f32>, count: u32) {
  store4_result(i >> 2u, vec4<i32>(clamp(round(v * params.inverse) + params.result_zero, vec4<f32>(-128.0),
                                         vec4<f32>(127.0))));
}

//! module: store_elements
fn store(section: u32, i: u32, v: vec4<f32>, count: u32) {
  store_result(i, v.x);
  if (count > 1u) {
    store_result(i + 1u, v.y);
  }
  if (count > 2u) {
    store_result(i + 2u, v.z);
  }
  if (count > 3u) {
    store_result(i + 3u, v.w);
  }
}

//! module: store_two
fn store(section: u32, i: u32, v: vec4<f32>, count: u32) {
  if (section == 0u) {
    store4_result(i >> 2u, v);
  } else {
    store4_result1(i >> 2u, v);
  }
}

//! module: store_three
fn store(section: u32, i: u32, v: vec4<f32>, count: u32) {
  if (section == 0u) {
    store4_result(i >> 2u, v);
  }
  if (section == 1u) {
    store4_result1(i >> 2u, v);
  }
  if (section == 2u) {
    store4_result2(i >> 2u, v);
  }
}

// What a lane of product_row adds at a time where weights are not read by whole words.
//! module: chunk_quads
//! slots: weights
const CHUNK = 4u;
fn chunk_sum(p: Place, k: u32) -> X {
  return weights_at(columns_at(p.batch, p.section, p.column), 0u, k) * x_rows(p, k);
}
