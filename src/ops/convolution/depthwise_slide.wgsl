// Depthwise convolutions with filters of 3x3 and 5x5, the strides 1 and 2: a thread goes down four columns of the result
// with all weights in registers. It loads each row of the input once, and adds it to all results that it belongs to; the
// first of them is complete then. So four results take 6 loads and a store (3x3, stride 1), where a copy takes 4 and a
// store, and nothing is indexed or branched on but the row. On a GPU neighbouring threads read neighbouring quads, and
// there are as many blocks of rows as it takes to have work for all.
//! module: depthwise_slide
//! uses: depthwise_rows
//! slots: filter

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.threads) {
    return;
  }
  let column = i % params.column_quads * 4u;
  let rest = i / params.column_quads;
  let plane = rest / params.row_blocks;
  let top = (rest - plane * params.row_blocks) * params.rows;
  let end = min(top + params.rows, params.size.y) + BEFORE;
  let first = first_of(plane);
  let taps = taps_at(plane % params.channels);
  let x = i32(column) * params.stride.x - params.padding.x;
  var y = i32(top) * params.stride.y - params.padding.y - SKIPPED;
  var sums = Sums();
  // The first steps only begin results.
  for (var row = top; row < end; row++) {
    let made = slide(taps, &sums, first, y, x);
    y += params.stride.y;
    if (row >= top + BEFORE) {
      write(plane, row - BEFORE, column, made);
    }
  }
}

// The weights of a filter, and what its rows are multiplied with: the input at each tap, for four results.
//! module: depthwise_3
alias Taps = mat3x3<f32>;
alias Row = mat3x4<f32>;
fn taps_row(i: u32) -> vec3<f32> {
  return vec3<f32>(load_weight(i), load_weight(i + 1u), load_weight(i + 2u));
}
fn taps_at(channel: u32) -> Taps {
  return Taps(taps_row(9u * channel), taps_row(9u * channel + 3u), taps_row(9u * channel + 6u));
}

//! module: depthwise_3_by_1
//! uses: depthwise_3
const BEFORE = 2u;
const SKIPPED = 0;
alias Sums = mat2x4<f32>;
fn slide(w: Taps, sums: ptr<function, Sums>, first: u32, y: i32, x: i32) -> vec4<f32> {
  let a = four_at(first, y, x, 1u);
  let i = index_at(first, y, x + 4);
  let b = select(vec2<f32>(), vec2<f32>(load_x(i), load_x(i + 1u)),
                 vec2<u32>(u32(x + 4), u32(x + 5)) < vec2<u32>(width_at(y)));
  let row = Row(a, vec4<f32>(a.yzw, b.x), vec4<f32>(a.zw, b));
  let made = (*sums)[0] + row * w[2];
  *sums = Sums((*sums)[1] + row * w[1], row * w[0]);
  return made;
}

// Two rows at a time; of the first two, one is above the filter.
//! module: depthwise_3_by_2
//! uses: depthwise_3
const BEFORE = 1u;
const SKIPPED = 1;
alias Sums = vec4<f32>;
fn row_at(first: u32, y: i32, x: i32) -> Row {
  let a = four_at(first, y, x, 2u);
  let last = select(0.0, load_x(index_at(first, y, x + 8)), u32(x + 8) < width_at(y));
  return Row(a, four_at(first, y, x + 1, 2u), vec4<f32>(a.yzw, last));
}
fn slide(w: Taps, sums: ptr<function, Sums>, first: u32, y: i32, x: i32) -> vec4<f32> {
  let row = row_at(first, y + 1, x);
  let made = *sums + row_at(first, y, x) * w[1] + row * w[2];
  *sums = row * w[0];
  return made;
}

//! module: depthwise_5
struct Tap {
  four: vec4<f32>,
  last: f32,
}
struct Taps {
  a: Tap,
  b: Tap,
  c: Tap,
  d: Tap,
  e: Tap,
}
struct Row {
  four: mat4x4<f32>,
  last: vec4<f32>,
}
fn taps_row(i: u32) -> Tap {
  return Tap(vec4<f32>(load_weight(i), load_weight(i + 1u), load_weight(i + 2u), load_weight(i + 3u)),
             load_weight(i + 4u));
}
fn taps_at(channel: u32) -> Taps {
  let i = 25u * channel;
  return Taps(taps_row(i), taps_row(i + 5u), taps_row(i + 10u), taps_row(i + 15u), taps_row(i + 20u));
}
fn along(x: Row, w: Tap) -> vec4<f32> {
  return x.four * w.four + x.last * w.last;
}

//! module: depthwise_5_by_1
//! uses: depthwise_5
const BEFORE = 4u;
const SKIPPED = 0;
alias Sums = mat4x4<f32>;
fn slide(w: Taps, sums: ptr<function, Sums>, first: u32, y: i32, x: i32) -> vec4<f32> {
  let a = four_at(first, y, x, 1u);
  let b = four_at(first, y, x + 4, 1u);
  let row = Row(mat4x4<f32>(a, vec4<f32>(a.yzw, b.x), vec4<f32>(a.zw, b.xy), vec4<f32>(a.w, b.xyz)), b);
  let s = *sums;
  *sums = Sums(s[1] + along(row, w.d), s[2] + along(row, w.c), s[3] + along(row, w.b), along(row, w.a));
  return s[0] + along(row, w.e);
}

//! module: depthwise_5_by_2
//! uses: depthwise_5
const BEFORE = 2u;
const SKIPPED = 1;
alias Sums = mat2x4<f32>;
fn row_at(first: u32, y: i32, x: i32) -> Row {
  let a = four_at(first, y, x, 2u);
  let b = four_at(first, y, x + 1, 2u);
  let c = four_at(first, y, x + 8, 1u);
  return Row(mat4x4<f32>(a, b, vec4<f32>(a.yzw, c.x), vec4<f32>(b.yzw, c.y)), vec4<f32>(a.zw, c.xz));
}
fn slide(w: Taps, sums: ptr<function, Sums>, first: u32, y: i32, x: i32) -> vec4<f32> {
  let p = row_at(first, y, x);
  let q = row_at(first, y + 1, x);
  let s = *sums;
  *sums = Sums(s[1] + along(p, w.b) + along(q, w.c), along(q, w.a));
  return s[0] + along(p, w.d) + along(q, w.e);
}
