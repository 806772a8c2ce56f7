// Numbers to integers by scale and zero point, and back: one thread makes four neighbours. All computed in f32, in the
// order of torch: rounding (half to even), the zero point, the bounds.
// Bindings: source, result; scale and zero where tensors have them, an element for each group.
//! uses: one_stride
//! slots: factors, change

struct Params {
  quads: u32,
  count: u32,
  rank: u32,
  one_group: u32,  // 1: four neighbours have one
  scale: f32,
  inverse: f32,
  zero: f32,
  result_zero: f32,  // where integers become others
  low: f32,
  high: f32,
  sizes: array<vec4<u32>, 2>,
  strides: array<vec4<u32>, 2>,  // among the groups
  tail: array<vec4<f32>, 4>,
}
@group(0) @binding(0) var<uniform> params: Params;

struct Factors {
  scale: vec4<f32>,
  inverse: vec4<f32>,
  zero: vec4<f32>,
}

fn bounded(v: vec4<f32>) -> vec4<i32> {
  return vec4<i32>(clamp(v, vec4<f32>(params.low), vec4<f32>(params.high)));
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  if (quad < params.quads) {
    store4_result(quad, change(quad, factors(quad)));
  }
}

//! module: factors_fixed
fn factors(quad: u32) -> Factors {
  return Factors(vec4<f32>(params.scale), vec4<f32>(params.inverse), vec4<f32>(params.zero));
}

//! module: factors_of_groups
//! slots: zero
fn factors(quad: u32) -> Factors {
  var f: Factors;
  if (params.one_group == 1u) {
    let group = place(4u * quad);
    f.scale = vec4<f32>(load_scale(group));
    f.zero = vec4<f32>(zero_of(group));
  } else {
    for (var lane = 0u; lane < 4u; lane++) {
      let group = place(min(4u * quad + lane, params.count - 1u));
      f.scale[lane] = load_scale(group);
      f.zero[lane] = zero_of(group);
    }
  }
  f.inverse = 1.0 / f.scale;
  return f;
}

//! module: zero_of_group
fn zero_of(group: u32) -> f32 {
  return f32(load_zero(group));
}

//! module: zero_of_none
fn zero_of(group: u32) -> f32 {
  return 0.0;
}

//! module: quantize
fn change(quad: u32, f: Factors) -> vec4<i32> {
  return bounded(round(load4_source(quad) * f.inverse) + f.zero);
}

// By token, torch adds the zero point before it rounds.
//! module: quantize_tokens
fn change(quad: u32, f: Factors) -> vec4<i32> {
  return bounded(round(load4_source(quad) * f.inverse + f.zero));
}

//! module: dequantize
fn change(quad: u32, f: Factors) -> vec4<f32> {
  return (vec4<f32>(load4_source(quad)) - f.zero) * f.scale;
}

// What is left of numbers that are quantized.
//! module: quantize_and_back
fn change(quad: u32, f: Factors) -> vec4<f32> {
  return (vec4<f32>(bounded(round(load4_source(quad) * f.inverse) + f.zero)) - f.zero) * f.scale;
}

//! module: requantize_relu
fn change(quad: u32, f: Factors) -> vec4<i32> {
  let v = max((vec4<f32>(load4_source(quad)) - f.zero) * f.scale, vec4<f32>());
  return bounded(round(v * f.inverse) + params.result_zero);
}

//! module: requantize_in_place
fn change(quad: u32, f: Factors) -> vec4<i32> {
  return bounded(round((vec4<f32>(load4_result(quad)) - f.zero) * f.scale * f.inverse) + params.result_zero);
}
