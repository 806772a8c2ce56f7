// A step of AdamW, in place: one thread changes four neighbours.
// Bindings: param, mean, variance, grad.

struct Params {
  quads: u32,
  lr: f32,
  decay: f32,  // 1 - lr * weight_decay
  beta1: f32,
  beta2: f32,
  rest1: f32,  // 1 - beta1
  rest2: f32,
  eps: f32,
  correction1: f32,
  correction2: f32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.quads) {
    return;
  }
  let g = load4_grad(i);
  let m = params.beta1 * load4_mean(i) + params.rest1 * g;
  let square = params.beta2 * load4_variance(i) + params.rest2 * g * g;
  let step = m / params.correction1 / (sqrt(square / params.correction2) + params.eps);
  store4_param(i, params.decay * load4_param(i) - params.lr * step);
  store4_mean(i, m);
  store4_variance(i, square);
}
