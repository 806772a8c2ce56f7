// A product with 4-bit weights for CPU adapters: a thread makes 1 row by 16 columns, or 8 rows by 16 or 32, in
// registers, with no barrier. Depth and group size are multiples of 32, so a step takes a vec4 of words (32 nibbles of
// one group) from every column. On such an adapter each lane loads by itself, and a load takes as long as 20 to 30
// multiplications: x is loaded once for all columns, where there are subgroups once for four threads (row_at()), and a
// weight once for all rows.
//
// A nibble is masked where it stands, not shifted down: x is scaled by 1, 1/16, 1/256 and 1/4096 instead, once for all
// columns, which is exact. The -8 of all nibbles together is -8 times the sum of x; the scale of a group comes last, and
// then its offset times that sum.
// Sums are written as dot products, because the compilers then keep one sum at a time in a register.
// Bindings: x, weight (words4), scales, ...
//! uses: product_params, product_x, product_write, q4_scales
//! slots: rows, tile, x

// x of one row at 32 neighbouring k, and eight times its sum.
struct Row {
  k: array<vec4<f32>, 8>,
  eights: f32,
}
// Four columns at the same k.
struct Columns {
  a: array<vec4<f32>, 8>,
  b: array<vec4<f32>, 8>,
  c: array<vec4<f32>, 8>,
  d: array<vec4<f32>, 8>,
  scales: vec4<f32>,
  rest: vec4<f32>,  // what eight times x takes in all: an eighth of the offset, less the scale
}
// Of a thread's rows, the first half and, where there are several, the second.
struct Step {
  a: Rows,
  b: Rows,
}
struct Sums {
  a: X,
  b: X,
}

fn quad(batch: u32, row: u32, k: u32) -> vec4<f32> {
  let v = x_quad(batch, row, k);
  return select(v, v.yxwz, SWAPPED == 1u) * vec4<f32>(1.0, 0.0625, 0.00390625, 0.000244140625);
}

fn eights(v: vec4<f32>) -> f32 {
  return dot(v, vec4<f32>(8.0, 128.0, 2048.0, 32768.0));
}

// Four nibbles, times 1, 16, 256 and 4096.
fn nibbles(word: u32) -> vec4<f32> {
  return vec4<f32>(vec4<i32>(i32(word)) & vec4<i32>(0xf, 0xf0, 0xf00, 0xf000));
}

fn column(i: u32) -> array<vec4<f32>, 8> {
  let w = weight[i];
  return array<vec4<f32>, 8>(nibbles(w.x), nibbles(w.x >> 16u), nibbles(w.y), nibbles(w.y >> 16u), nibbles(w.z),
                             nibbles(w.z >> 16u), nibbles(w.w), nibbles(w.w >> 16u));
}

fn rest_at(offset: u32, scales: vec4<f32>) -> vec4<f32> {
  if (OFFSETS == 1u) {
    return 0.125 * scales_at(offset) - scales;
  }
  return vec4<f32>();
}

fn sum_of(w: array<vec4<f32>, 8>, x: array<vec4<f32>, 8>) -> f32 {
  return dot(w[0], x[0]) + dot(w[1], x[1]) + dot(w[2], x[2]) + dot(w[3], x[3]) + dot(w[4], x[4]) + dot(w[5], x[5]) +
         dot(w[6], x[6]) + dot(w[7], x[7]);
}

fn add(sums: vec4<f32>, w: Columns, x: Row) -> vec4<f32> {
  let products = vec4<f32>(sum_of(w.a, x.k), sum_of(w.b, x.k), sum_of(w.c, x.k), sum_of(w.d, x.k));
  if (OFFSETS == 1u) {
    return sums + w.rest * x.eights + w.scales * products;
  }
  return sums + w.scales * (products - x.eights);
}

// Adds four columns, from the vec4 `i` of words of the first one on.
fn add_columns(sums: Sums, i: u32, scale: u32, offsets: u32, x: Step) -> Sums {
  let pitch = params.depth >> 5u;
  let scales = scales_at(scale);
  let w = Columns(column(i), column(i + pitch), column(i + 2u * pitch), column(i + 3u * pitch), scales,
                  rest_at(scale + offsets, scales));
  var result = Sums(add_rows(sums.a, w, x.a), X());
  if (TILE_ROWS > 1u) {
    result.b = add_rows(sums.b, w, x.b);
  }
  return result;
}

fn below(place: Place) -> Place {
  return Place(place.batch, place.section, place.row + ROWS, place.column, place.x_batch, 0u);
}

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) index: u32, @builtin(workgroup_id) id: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>, lane: Lane) {
  // The threads of a workgroup share their rows of x.
  let across = (column_tiles() + WG - 1u) / WG;
  let group = group_index(id, groups);
  let batch = group / across / params.row_tiles;
  if (batch >= params.batches) {
    return;
  }
  let row = group / across % params.row_tiles * TILE_ROWS;
  var place = place_at(batch, row, group % across * WG + index);
  let pitch = params.depth >> 5u;
  let group_steps = params.group_size >> 5u;
  // Neither these nor the sums are arrays: to index one, or to write out all that is to be written, costs compilers
  // seconds or minutes.
  var gate0 = Sums();
  var gate1 = Sums();
  var gate2 = Sums();
  var gate3 = Sums();
  var gate4 = Sums();
  var gate5 = Sums();
  var gate6 = Sums();
  var gate7 = Sums();
  for (var part = 0u; part <= GATED; part++) {
    place.section += part;
    let s = params.sections[place.section];
    let first = (s.weight_first + place.column) * pitch;
    var sum0 = Sums();
    var sum1 = Sums();
    var sum2 = Sums();
    var sum3 = Sums();
    var sum4 = Sums();
    var sum5 = Sums();
    var sum6 = Sums();
    var sum7 = Sums();
    for (var k = 0u; k < pitch; k++) {
      var x = Step(rows_at(place, 32u * k, lane), Rows());
      if (TILE_ROWS > 1u) {
        x.b = rows_at(below(place), 32u * k, lane);
      }
      let scale = s.scales_first + k / group_steps * s.scales_pitch + place.column;
      let i = first + k;
      sum0 = add_columns(sum0, i, scale, s.offsets, x);
      sum1 = add_columns(sum1, i + 4u * pitch, scale + 4u, s.offsets, x);
      sum2 = add_columns(sum2, i + 8u * pitch, scale + 8u, s.offsets, x);
      sum3 = add_columns(sum3, i + 12u * pitch, scale + 12u, s.offsets, x);
      if (TILE_COLUMNS > 16u) {
        sum4 = add_columns(sum4, i + 16u * pitch, scale + 16u, s.offsets, x);
        sum5 = add_columns(sum5, i + 20u * pitch, scale + 20u, s.offsets, x);
        sum6 = add_columns(sum6, i + 24u * pitch, scale + 24u, s.offsets, x);
        sum7 = add_columns(sum7, i + 28u * pitch, scale + 28u, s.offsets, x);
      }
    }
    if (part < GATED) {
      gate0 = sum0;
      gate1 = sum1;
      gate2 = sum2;
      gate3 = sum3;
      gate4 = sum4;
      gate5 = sum5;
      gate6 = sum6;
      gate7 = sum7;
      continue;
    }
    for (var block = 0u; block < TILE_COLUMNS / 4u; block++) {
      let at = place.column + 4u * block;
      write_rows(place, at, gate0.a, sum0.a);
      if (TILE_ROWS > 1u) {
        write_rows(below(place), at, gate0.b, sum0.b);
      }
      gate0 = gate1;
      gate1 = gate2;
      gate2 = gate3;
      gate3 = gate4;
      gate4 = gate5;
      gate5 = gate6;
      gate6 = gate7;
      sum0 = sum1;
      sum1 = sum2;
      sum2 = sum3;
      sum3 = sum4;
      sum4 = sum5;
      sum5 = sum6;
      sum6 = sum7;
    }
  }
}
