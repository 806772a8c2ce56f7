// Element types: one thread converts four elements. float → int truncates towards zero; anything but zero is true, NaN
// too: shaders may take it for any number, so it is compared by what it cannot equal.
// Bindings: source, result.
//! proven: a thread has one place on both sides
//! slots: change

struct Params {
  quads: u32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.quads) {
    store4_result(i, change(load4_source(i)));
  }
}

//! module: float_to_bool
fn change(v: vec4<f32>) -> vec4<i32> {
  return select(vec4<i32>(1), vec4<i32>(0), v == vec4<f32>(0.0));
}

//! module: int_to_bool
fn change(v: vec4<i32>) -> vec4<i32> {
  return select(vec4<i32>(0), vec4<i32>(1), v != vec4<i32>(0));
}

//! module: float_to_float
fn change(v: vec4<f32>) -> vec4<f32> {
  return v;
}

//! module: float_to_int
fn change(v: vec4<f32>) -> vec4<i32> {
  return vec4<i32>(v);
}

//! module: int_to_float
fn change(v: vec4<i32>) -> vec4<f32> {
  return vec4<f32>(v);
}

//! module: int_to_int
fn change(v: vec4<i32>) -> vec4<i32> {
  return v;
}
