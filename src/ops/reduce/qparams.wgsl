// What the extremes of a row come to: its scale and its zero point.

//! module: qparams_params
//! slots: keep
struct Params {
  rows: u32,
  width: u32,
  parts: u32,
  quant_min: f32,
  quant_max: f32,
  eps: f32,
  zero: f32,  // where the rule has a fixed one
}
@group(0) @binding(0) var<uniform> params: Params;

struct Qparams {
  scale: vec4<f32>,
  zero: vec4<f32>,
}

// By its bits: min() and max() may drop it.
fn nan_of(v: vec4<f32>) -> vec4<f32> {
  return select(vec4<f32>(), vec4<f32>(1.0),
                (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u));
}

fn store_qparams(quad: u32, a: vec3<f32>, b: vec3<f32>, c: vec3<f32>, d: vec3<f32>) {
  let q = qparams(vec4<f32>(a.x, b.x, c.x, d.x), vec4<f32>(a.y, b.y, c.y, d.y));
  var nan = vec4<u32>(0x7fc00000u);
  keep(quad, select(q.scale, bitcast<vec4<f32>>(nan), vec4<f32>(a.z, b.z, c.z, d.z) > vec4<f32>()),
       vec4<i32>(q.zero));
}

fn bounded(zero: vec4<f32>) -> vec4<f32> {
  return clamp(zero, vec4<f32>(params.quant_min), vec4<f32>(params.quant_max));
}

// Either result may be one that nobody reads.
//! module: keep_both
fn keep(quad: u32, scale: vec4<f32>, zero: vec4<i32>) {
  store4_scale(quad, scale);
  store4_zero_point(quad, zero);
}

//! module: keep_scale
fn keep(quad: u32, scale: vec4<f32>, zero: vec4<i32>) {
  store4_scale(quad, scale);
}

//! module: keep_zero
fn keep(quad: u32, scale: vec4<f32>, zero: vec4<i32>) {
  store4_zero_point(quad, zero);
}

// The smallest, the largest, 1 after a NaN; zero counts as an element.
//! module: fold_extremes
//! uses: floats
alias S = vec4<f32>;
fn start() -> S {
  return S();
}
fn is_lost(x: f32) -> f32 {
  return select(0.0, 1.0, (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u);
}
fn lift(x: f32, i: u32) -> S {
  return S(min(x, 0.0), max(x, 0.0), is_lost(x), 0.0);
}
fn lift4(v: vec4<f32>, i: u32, step: u32) -> S {
  return S(min(min(min(v.x, v.y), min(v.z, v.w)), 0.0), max(max(max(v.x, v.y), max(v.z, v.w)), 0.0),
           max(max(is_lost(v.x), is_lost(v.y)), max(is_lost(v.z), is_lost(v.w))), 0.0);
}
fn merge(a: S, b: S) -> S {
  return S(min(a.x, b.x), max(a.y, b.y), max(a.z, b.z), 0.0);
}

//! module: qparams_asymmetric
fn qparams(smallest: vec4<f32>, largest: vec4<f32>) -> Qparams {
  let step = max((largest - smallest) / (params.quant_max - params.quant_min), vec4<f32>(params.eps));
  return Qparams(step, bounded(params.quant_min - round(smallest / step)));
}

//! module: qparams_symmetric
fn qparams(smallest: vec4<f32>, largest: vec4<f32>) -> Qparams {
  let step = max(-smallest, largest) / (0.5 * (params.quant_max - params.quant_min));
  return Qparams(max(step, vec4<f32>(params.eps)), vec4<f32>(params.zero));
}

// Nothing is clipped: the larger of the steps that either side needs.
//! module: qparams_symmetric_whole
fn qparams(smallest: vec4<f32>, largest: vec4<f32>) -> Qparams {
  let below = smallest / params.quant_min;
  let above = largest / params.quant_max;
  return Qparams(max(select(above, below, below > above), vec4<f32>(params.eps)), vec4<f32>(params.zero));
}

// The zero point is taken from the side where that costs less.
//! module: qparams_of_token
fn qparams(smallest: vec4<f32>, largest: vec4<f32>) -> Qparams {
  let step = max((largest - smallest) / (params.quant_max - params.quant_min), vec4<f32>(params.eps));
  let low = smallest / step;
  let high = largest / step;
  let by_low = (params.quant_min + low) + (params.quant_max + high) > vec4<f32>();
  return Qparams(step, round(bounded(select(params.quant_max - high, params.quant_min - low, by_low))));
}
