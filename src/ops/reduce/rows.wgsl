// What the elements of a line become when it is folded. A module of applies has done(s), which is made once of a line's
// state, and apply(x, d, i) and apply4(v, d, quad), which make its i-th element, and the quad-th four of them.

//! module: apply_softmax
fn done(s: S) -> vec2<f32> {
  return vec2<f32>(s.x, 1.0 / s.y);
}
fn apply(x: f32, d: vec2<f32>, i: u32) -> f32 {
  return exp(x - d.x) * d.y;
}
fn apply4(v: vec4<f32>, d: vec2<f32>, quad: u32) -> vec4<f32> {
  return exp(v - d.x) * d.y;
}

//! module: apply_log_softmax
fn done(s: S) -> vec2<f32> {
  let bits = bitcast<u32>(s.y);
  let is_lost = bits == 0u || (bits & 0x7fffffffu) > 0x7f800000u;
  return vec2<f32>(s.x, select(log(s.y), bitcast<f32>(bits | 0x7fc00000u), is_lost));
}
fn apply(x: f32, d: vec2<f32>, i: u32) -> f32 {
  return x - d.x - d.y;
}
fn apply4(v: vec4<f32>, d: vec2<f32>, quad: u32) -> vec4<f32> {
  return v - d.x - d.y;
}

//! module: apply_rms_norm
//! slots: weight
fn done(s: S) -> vec2<f32> {
  return vec2<f32>(1.0 / sqrt(s / f32(params.width) + params.scalar), 0.0);
}
fn apply(x: f32, d: vec2<f32>, i: u32) -> f32 {
  return x * d.x * weight_at(i);
}
fn apply4(v: vec4<f32>, d: vec2<f32>, quad: u32) -> vec4<f32> {
  return v * d.x * weight4_at(quad);
}

//! module: apply_layer_norm
//! slots: weight, bias
fn done(s: S) -> vec2<f32> {
  return vec2<f32>(s.y, 1.0 / sqrt(s.z / s.x + params.scalar));
}
fn apply(x: f32, d: vec2<f32>, i: u32) -> f32 {
  return (x - d.x) * d.y * weight_at(i) + bias_at(i);
}
fn apply4(v: vec4<f32>, d: vec2<f32>, quad: u32) -> vec4<f32> {
  return (v - d.x) * d.y * weight4_at(quad) + bias4_at(quad);
}

//! module: norm_weight
fn weight_at(i: u32) -> f32 {
  return load_weight(i);
}
fn weight4_at(quad: u32) -> vec4<f32> {
  return load4_weight(quad);
}

//! module: norm_no_weight
fn weight_at(i: u32) -> f32 {
  return 1.0;
}
fn weight4_at(quad: u32) -> vec4<f32> {
  return vec4<f32>(1.0);
}

//! module: norm_bias
fn bias_at(i: u32) -> f32 {
  return load_bias(i);
}
fn bias4_at(quad: u32) -> vec4<f32> {
  return load4_bias(quad);
}

//! module: norm_no_bias
fn bias_at(i: u32) -> f32 {
  return 0.0;
}
fn bias4_at(quad: u32) -> vec4<f32> {
  return vec4<f32>(0.0);
}

// The i-th four elements, when they are seen for the first and for the second time.
//! module: rows_of_source
fn first4(i: u32) -> vec4<f32> {
  return load4_source(i);
}
fn again4(i: u32) -> vec4<f32> {
  return load4_source(i);
}

// The elements are sums, as they are stored.
//! module: rows_of_sum
fn first4(i: u32) -> vec4<f32> {
  store4_sum(i, load4_a(i) + load4_b(i));
  return again4(i);
}
fn again4(i: u32) -> vec4<f32> {
  return load4_sum(i);
}
