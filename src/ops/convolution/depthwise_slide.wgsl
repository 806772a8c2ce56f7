// Depthwise convolutions with filters of 3x3 and 5x5, the strides 1 and 2: a thread goes down four columns of the result
// with all weights in registers. It loads each row of the input once, and adds it to all results that it belongs to; the
// first of them is complete then. So four results take 6 loads and a store (3x3, stride 1), where a copy takes 4 and a
// store, and nothing is indexed or branched on but the row. On a GPU neighbouring threads read neighbouring quads, where
// they share them one vec4 each, and there are as many blocks of rows as it takes to have work for all.
//! module: depthwise_slide
//! uses: depthwise_rows
//! slots: filter

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let thread = thread_index(id, groups);
  let i = min(thread, params.threads - 1u);
  let column = i % params.column_quads * 4u;
  let rest = i / params.column_quads;
  let plane = rest / params.row_blocks;
  let top = (rest - plane * params.row_blocks) * params.rows;
  let end = select(0u, min(top + params.rows, params.size.y) + BEFORE, i == thread);
  let first = first_of(plane);
  let taps = taps_at(plane % params.channels);
  let x = i32(column) * params.stride.x - params.padding.x;
  var y = i32(top) * params.stride.y - params.padding.y - SKIPPED;
  var sums = Sums();
  // The first steps only begin results. All threads take as many, because neighbours may share what they load.
  for (var n = 0u; n < params.rows + BEFORE; n++) {
    let made = slide(taps, &sums, first, y, x);
    y += params.stride.y;
    if (n >= BEFORE && top + n < end) {
      write(plane, top + n - BEFORE, column, made);
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
//! slots: window
const BEFORE = 2u;
const SKIPPED = 0;
alias Sums = mat2x4<f32>;
fn slide(w: Taps, sums: ptr<function, Sums>, first: u32, y: i32, x: i32) -> vec4<f32> {
  let at = window(first, y, x);
  let row = Row(at.a, vec4<f32>(at.a.yzw, at.b.x), vec4<f32>(at.a.zw, at.b.xy));
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
//! slots: window
const BEFORE = 4u;
const SKIPPED = 0;
alias Sums = mat4x4<f32>;
fn slide(w: Taps, sums: ptr<function, Sums>, first: u32, y: i32, x: i32) -> vec4<f32> {
  let at = window(first, y, x);
  let a = at.a;
  let b = at.b;
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

// What filters of stride 1 see of a row for four results: eight columns, of which one of 3 taps uses six.
//! module: depthwise_window
struct Window {
  a: vec4<f32>,
  b: vec4<f32>,
}

//! module: window_3
//! uses: depthwise_window
fn window(first: u32, y: i32, x: i32) -> Window {
  let i = index_at(first, y, x + 4);
  let b = select(vec2<f32>(), vec2<f32>(load_x(i), load_x(i + 1u)),
                 vec2<u32>(u32(x + 4), u32(x + 5)) < vec2<u32>(width_at(y)));
  return Window(four_at(first, y, x, 1u), vec4<f32>(b, 0.0, 0.0));
}

//! module: window_5
//! uses: depthwise_window
fn window(first: u32, y: i32, x: i32) -> Window {
  return Window(four_at(first, y, x, 1u), four_at(first, y, x + 4, 1u));
}

// For GPUs, where rows of the input are whole vec4s, as many as of the result: a thread loads one, and its neighbours
// pass it what is beside. They tell which vec4 they have: what none of them has is loaded.
//! module: window_shared
//! uses: depthwise_window
//! needs: subgroups
fn window(first: u32, y: i32, x: i32) -> Window {
  let column = x + params.padding.x;
  let i = index_at(first, y, column);
  let width = width_at(y);
  let number = select(0u, i / 4u + 1u, width > 0u);
  let own = select(vec4<f32>(), load4_x(i / 4u), width > 0u);
  let left = subgroupShuffleUp(vec3<u32>(bitcast<vec2<u32>>(own.zw), number), 1u);
  let right = subgroupShuffleDown(vec3<u32>(bitcast<vec2<u32>>(own.xy), number), 1u);
  var before = bitcast<vec2<f32>>(left.xy);
  var after = bitcast<vec2<f32>>(right.xy);
  if (left.z + 1u != number) {
    before = vec2<f32>(load_x(i - 2u), load_x(i - 1u));
  }
  if (right.z != number + 1u) {
    after = vec2<f32>(load_x(i + 4u), load_x(i + 5u));
  }
  before = select(vec2<f32>(), before, column > 0 && width > 0u);
  after = select(vec2<f32>(), after, u32(column) + 4u < width);
  if (params.padding.x == 1) {
    return Window(vec4<f32>(before.y, own.xyz), vec4<f32>(own.w, after, 0.0));
  }
  return Window(vec4<f32>(before, own.xy), vec4<f32>(own.zw, after));
}
