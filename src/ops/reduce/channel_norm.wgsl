// Channels brought to unit size: one thread makes four neighbouring elements.
// Bindings: source, result, perhaps weight and bias; running_mean and running_var, or states.
//! proven: planes behind the last are the last
//! slots: statistics, weight, bias

struct Params {
  quads: u32,
  planes: u32,      // a plane is what a batch has of a channel
  inner: u32,       // its elements
  channels: u32,
  group: u32,       // neighbouring planes with one state
  parts: u32,       // places between two states
  epsilon: f32,
}
@group(0) @binding(0) var<uniform> params: Params;

// Mean, factor and bias.
fn terms(plane: u32) -> vec3<f32> {
  let channel = plane % params.channels;
  let s = statistics(plane, channel);
  return vec3<f32>(s.x, weight_at(channel) / sqrt(s.y + params.epsilon), bias_at(channel));
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.quads) {
    return;
  }
  let v = load4_source(i);
  let plane = 4u * i / params.inner;
  let a = terms(plane);
  if (4u * i + 4u <= (plane + 1u) * params.inner) {
    store4_result(i, (v - a.x) * a.y + a.z);
    return;
  }
  let p = min((4u * i + vec4<u32>(0u, 1u, 2u, 3u)) / params.inner, vec4<u32>(params.planes - 1u));
  let b = terms(p.y);
  let c = terms(p.z);
  let d = terms(p.w);
  store4_result(i, (v - vec4<f32>(a.x, b.x, c.x, d.x)) * vec4<f32>(a.y, b.y, c.y, d.y) +
                   vec4<f32>(a.z, b.z, c.z, d.z));
}

//! module: channel_statistics
fn statistics(plane: u32, channel: u32) -> vec2<f32> {
  return vec2<f32>(load_running_mean(channel), load_running_var(channel));
}

//! module: channel_variances
fn statistics(plane: u32, channel: u32) -> vec2<f32> {
  return vec2<f32>(0.0, load_running_var(channel));
}

//! module: group_statistics
//! slots: fold, states
fn statistics(plane: u32, channel: u32) -> vec2<f32> {
  let s = state_at(plane / params.group * params.parts);
  return vec2<f32>(s.y, s.z / s.x);
}
