// Windows over images, each folded to one element: one thread makes four neighbouring ones, tap by tap.
// Bindings: source, result or places or both, perhaps states.
//! uses: planes
//! slots: windows, fold, finish, carry

struct Params {
  quads: u32,
  planes: u32,
  divisor: f32,         // 0: the number of elements
  size: vec2<u32>,      // of the result
  image: vec2<u32>,
  kernel: vec2<u32>,    // taps of a window
  stride: vec2<u32>,
  padding: vec2<u32>,
  dilation: vec2<u32>,
  border: vec2<u32>,    // padding that counts as elements
  first: vec2<u32>,     // the tap with which this dispatch begins
  taps: u32,            // that it takes
  is_first: u32,
  is_last: u32,
}
@group(0) @binding(0) var<uniform> params: Params;

// Coordinates wrap, so those before the image are beyond it too.
struct Windows {
  y: vec4<u32>,
  x: vec4<u32>,
  end_y: vec4<u32>,
  end_x: vec4<u32>,
}

var<private> folded: vec4<f32>;
var<private> place = vec4<i32>(-1);

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.quads) {
    return;
  }
  let q = quad_at(i, params.size, params.planes);
  let w = Windows(window_start(q.y, 0u), window_start(q.x, 1u), window_end(q.y, 0u), window_end(q.x, 1u));
  let base = q.plane * (params.image.x * params.image.y);
  resume(i);
  var tap = params.first;
  for (var t = 0u; t < params.taps; t++) {
    let y = w.y + tap.x * params.dilation.x;
    let x = w.x + tap.y * params.dilation.y;
    let is_inside = (y < w.end_y) & (x < w.end_x);
    let at = select(vec4<u32>(), y * params.image.y + x, is_inside);
    let e = base + at;
    take(vec4<f32>(load_source(e.x), load_source(e.y), load_source(e.z), load_source(e.w)), vec4<i32>(at), is_inside);
    tap.y++;
    if (tap.y == params.kernel.y) {
      tap = vec2<u32>(tap.x + 1u, 0u);
    }
  }
  if (is_done(i)) {
    finish(i, w);
  }
}

//! module: sliding_windows
fn window_start(o: vec4<u32>, axis: u32) -> vec4<u32> {
  return o * params.stride[axis] - params.padding[axis];
}
fn window_end(o: vec4<u32>, axis: u32) -> vec4<u32> {
  return vec4<u32>(params.image[axis]);
}
fn elements(start: vec4<u32>, end: vec4<u32>, axis: u32) -> vec4<f32> {
  let border = vec4<i32>(i32(params.border[axis]));
  let first = vec4<i32>(start);
  return vec4<f32>(min(first + i32(params.kernel[axis]), vec4<i32>(end) + border) - max(first, -border));
}

// As many windows as the result has elements; together they cover the image.
//! module: adaptive_windows
fn window_start(o: vec4<u32>, axis: u32) -> vec4<u32> {
  return o * params.image[axis] / params.size[axis];
}
fn window_end(o: vec4<u32>, axis: u32) -> vec4<u32> {
  return ((o + 1u) * params.image[axis] + (params.size[axis] - 1u)) / params.size[axis];
}
fn elements(start: vec4<u32>, end: vec4<u32>, axis: u32) -> vec4<f32> {
  return vec4<f32>(end - start);
}

//! module: pool_sum
fn take(v: vec4<f32>, at: vec4<i32>, is_inside: vec4<bool>) {
  folded += select(vec4<f32>(), v, is_inside);
}

// As in torch: the first of equal elements, and the last NaN.
//! module: pool_max
//! uses: nan_quads
fn take(v: vec4<f32>, at: vec4<i32>, is_inside: vec4<bool>) {
  let wins = is_inside & ((place < vec4<i32>()) | nan_quads(v) | ((v > folded) & !nan_quads(folded)));
  folded = select(folded, v, wins);
  place = select(place, at, wins);
}
// Of a window beside the image: the infinity is made of what no compiler knows.
fn largest() -> vec4<f32> {
  let bits = select(bitcast<vec4<i32>>(folded), place << vec4<u32>(23u), place < vec4<i32>());
  return bitcast<vec4<f32>>(bits);
}

//! module: pool_means
fn finish(i: u32, w: Windows) {
  let count = elements(w.y, w.end_y, 0u) * elements(w.x, w.end_x, 1u);
  store4_result(i, folded / select(count, vec4<f32>(params.divisor), params.divisor != 0.0));
}

//! module: pool_values
fn finish(i: u32, w: Windows) {
  store4_result(i, largest());
}

//! module: pool_places
fn finish(i: u32, w: Windows) {
  store4_places(i, place);
}

//! module: pool_both
fn finish(i: u32, w: Windows) {
  store4_result(i, largest());
  store4_places(i, place);
}

//! module: pool_whole
fn resume(i: u32) {}
fn is_done(i: u32) -> bool {
  return true;
}

// What is folded waits for the next dispatch in working memory.
//! module: pool_parts
fn resume(i: u32) {
  if (params.is_first == 0u) {
    folded = bitcast<vec4<f32>>(load4_states(2u * i));
    place = load4_states(2u * i + 1u);
  }
}
fn is_done(i: u32) -> bool {
  if (params.is_last == 0u) {
    store4_states(2u * i, bitcast<vec4<i32>>(folded));
    store4_states(2u * i + 1u, place);
  }
  return params.is_last == 1u;
}
