// Images seen at other positions: one thread makes four neighbouring elements. `positions` says where they lie in the
// source, `padding` what positions beside it stand for, and `look` what is there.
// Bindings: source, result, perhaps grid.
//! uses: planes, nan_quads
//! slots: positions, padding, look

struct Params {
  quads: u32,
  planes: u32,
  channels: u32,     // planes that share a grid
  spoils: u32,       // 1: where a position is no number, the element is none either
  size: vec2<u32>,   // of the result
  image: vec2<u32>,
  last: vec2<i32>,   // the last row and column that a position may mean
  step: vec2<i32>,   // to the next ones
  scale: vec2<f32>,
  span: vec2<f32>,   // after which reflections repeat
  shift: f32,
  low: f32,          // what they begin with
}
@group(0) @binding(0) var<uniform> params: Params;

struct Positions {
  y: vec4<f32>,
  x: vec4<f32>,
}

// No number, or endless.
fn is_lost(v: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>>(v) & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u);
}

// Zero where there is nothing: negative numbers wrap.
fn tap(plane: vec4<u32>, row: vec4<i32>, column: vec4<i32>) -> vec4<f32> {
  let y = vec4<u32>(row);
  let x = vec4<u32>(column);
  let is_inside = (y < vec4<u32>(params.image.x)) & (x < vec4<u32>(params.image.y));
  let at = select(vec4<u32>(), (plane * params.image.x + y) * params.image.y + x, is_inside);
  return select(vec4<f32>(), vec4<f32>(load_source(at.x), load_source(at.y), load_source(at.z), load_source(at.w)),
                is_inside);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.quads) {
    return;
  }
  let q = quad_at(i, params.size, params.planes);
  let at = positions(q);
  var v = look(q.plane, at.y, at.x);
  if (params.spoils == 1u) {
    let nan = bitcast<vec4<f32>>(bitcast<vec4<u32>>(at.y) | vec4<u32>(0x7fc00000u));
    v = select(v, nan, is_lost(at.y) | is_lost(at.x));
  }
  store4_result(i, v);
}

//! module: scaled_positions
fn positions(q: Quad) -> Positions {
  return Positions(max(params.scale.x * (vec4<f32>(q.y) + params.shift) - params.shift, vec4<f32>()),
                   max(params.scale.y * (vec4<f32>(q.x) + params.shift) - params.shift, vec4<f32>()));
}

//! module: whole_positions
fn positions(q: Quad) -> Positions {
  return Positions(floor(params.scale.x * vec4<f32>(q.y)), floor(params.scale.y * vec4<f32>(q.x)));
}

// A grid has x and y from -1 to 1 for each place of the result.
//! module: grid_positions
fn positions(q: Quad) -> Positions {
  let g = 2u * (((q.plane / params.channels) * params.size.x + q.y) * params.size.y + q.x);
  let x = vec4<f32>(load_grid(g.x), load_grid(g.y), load_grid(g.z), load_grid(g.w));
  let y = vec4<f32>(load_grid(g.x + 1u), load_grid(g.y + 1u), load_grid(g.z + 1u), load_grid(g.w + 1u));
  return Positions((y + 1.0) * params.scale.x - params.shift, (x + 1.0) * params.scale.y - params.shift);
}

//! module: no_padding
fn padded(p: vec4<f32>, axis: u32) -> vec4<f32> {
  return p;
}

// Far enough outside for any way to look.
//! module: zero_padding
fn padded(p: vec4<f32>, axis: u32) -> vec4<f32> {
  return clamp(select(p, vec4<f32>(-4.0), is_lost(p)), vec4<f32>(-4.0), vec4<f32>(f32(params.image[axis]) + 3.0));
}

//! module: border_padding
fn padded(p: vec4<f32>, axis: u32) -> vec4<f32> {
  return select(clamp(p, vec4<f32>(), vec4<f32>(f32(params.image[axis]) - 1.0)), vec4<f32>(), nan_quads(p));
}

//! module: reflected_padding
fn padded(p: vec4<f32>, axis: u32) -> vec4<f32> {
  let span = params.span[axis];
  let away = abs(select(p, vec4<f32>(), is_lost(p)) - params.low);
  let rest = away - trunc(away / span) * span;
  let back = clamp(min(rest, span - rest) + params.low, vec4<f32>(), vec4<f32>(f32(params.image[axis]) - 1.0));
  return select(back, vec4<f32>(), is_lost(p));
}

//! module: look_nearest
fn whole(p: vec4<f32>, axis: u32) -> vec4<i32> {
  return min(vec4<i32>(round(padded(p, axis))), vec4<i32>(params.last[axis]));
}
fn look(plane: vec4<u32>, y: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
  return tap(plane, whole(y, 0u), whole(x, 1u));
}

//! module: look_linear
fn look(plane: vec4<u32>, y: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
  let row = padded(y, 0u);
  let column = padded(x, 1u);
  let top = min(vec4<i32>(floor(row)), vec4<i32>(params.last.x));
  let left = min(vec4<i32>(floor(column)), vec4<i32>(params.last.y));
  let bottom = min(top + params.step.x, vec4<i32>(params.last.x));
  let right = min(left + params.step.y, vec4<i32>(params.last.y));
  let down = clamp(row - vec4<f32>(top), vec4<f32>(), vec4<f32>(1.0));
  let over = clamp(column - vec4<f32>(left), vec4<f32>(), vec4<f32>(1.0));
  return (tap(plane, top, left) * (1.0 - over) + tap(plane, top, right) * over) * (1.0 - down) +
         (tap(plane, bottom, left) * (1.0 - over) + tap(plane, bottom, right) * over) * down;
}

// Bicubic convolution with a = -0.75: weights of a tap at a distance below 1, and below 2.
//! module: look_cubic
fn near(t: vec4<f32>) -> vec4<f32> {
  return (1.25 * t - 2.25) * t * t + 1.0;
}
fn far(t: vec4<f32>) -> vec4<f32> {
  return ((-0.75 * t + 3.75) * t - 6.0) * t + 3.0;
}
fn column_tap(plane: vec4<u32>, row: vec4<i32>, column: vec4<f32>) -> vec4<f32> {
  return tap(plane, row, vec4<i32>(round(padded(column, 1u))));
}
fn along(plane: vec4<u32>, y: vec4<f32>, left: vec4<f32>, t: vec4<f32>) -> vec4<f32> {
  let row = vec4<i32>(round(padded(y, 0u)));
  return column_tap(plane, row, left - 1.0) * far(t + 1.0) + column_tap(plane, row, left) * near(t) +
         column_tap(plane, row, left + 1.0) * near(1.0 - t) + column_tap(plane, row, left + 2.0) * far(2.0 - t);
}
fn look(plane: vec4<u32>, y: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
  let top = floor(y);
  let left = floor(x);
  let t = y - top;
  let over = x - left;
  return along(plane, top - 1.0, left, over) * far(t + 1.0) + along(plane, top, left, over) * near(t) +
         along(plane, top + 1.0, left, over) * near(1.0 - t) + along(plane, top + 2.0, left, over) * far(2.0 - t);
}
