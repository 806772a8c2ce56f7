// Equal steps: one thread makes four neighbouring elements.
// Binding: result.
//! proven: a thread has one place
//! slots: value

struct Params {
  quads: u32,
  start: f32,
  step: f32,
  start_int: i32,
  step_int: i32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.quads) {
    store4_result(i, value(4u * i + vec4<u32>(0u, 1u, 2u, 3u)));
  }
}

//! module: fill_floats
fn value(i: vec4<u32>) -> vec4<f32> {
  return params.start + params.step * vec4<f32>(i);
}

//! module: fill_ints
fn value(i: vec4<u32>) -> vec4<i32> {
  return params.start_int + params.step_int * vec4<i32>(i);
}
