// Elementwise on one operand: one thread makes four neighbouring elements.
// Bindings: source, result.
//! proven: a thread has one place on both sides
//! slots: type, functions?
//! expression: apply(v: vec4<T>) -> vec4<R>

struct Params {
  quads: u32,
  x: f32,
  y: f32,
  i: i32,
  j: i32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.quads) {
    let v = vec4<T>(load4_source(i));
    store4_result(i, finish(v, apply(v)));
  }
}

// Every function of a float gives NaN for NaN. WGSL promises that of none, and a comparison `v != v` may be folded away,
// so the bits decide.
//! module: unary_floats
alias T = f32;
alias R = f32;
fn finish(v: vec4<f32>, r: vec4<f32>) -> vec4<f32> {
  return select(r, v, (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u));
}

//! module: unary_ints
alias T = i32;
alias R = i32;
fn finish(v: vec4<i32>, r: vec4<i32>) -> vec4<i32> {
  return r;
}

//! module: unary_truth
alias T = f32;
alias R = i32;
fn finish(v: vec4<f32>, r: vec4<i32>) -> vec4<i32> {
  return r;
}
