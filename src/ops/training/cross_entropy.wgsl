// Cross entropy, after the exponentials of each row were folded to their sum.
// Bindings: states [rows, parts] (of each row the largest element, and the sum), source, labels, result, fault.

//! module: cross_entropy_params
struct Params {
  rows: u32,
  width: u32,
  parts: u32,
  node: u32,
  site: u32,
  n_valid: f32,
}
@group(0) @binding(0) var<uniform> params: Params;

// A row whose label is negative does not count.
fn label_of(row: u32) -> i32 {
  let label = load_labels(row);
  if (label >= i32(params.width)) {
    report_fault_at(params.node, params.site, row, label);
    return -1;
  }
  return label;
}

// One thread makes four neighbours of the gradient.
//! module: cross_entropy_gradient
//! uses: cross_entropy_params
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  let count = params.rows * params.width;
  if (quad >= (count + 3u) / 4u) {
    return;
  }
  let v = load4_source(quad);
  var result = vec4<f32>();
  for (var lane = 0u; lane < 4u; lane++) {
    let element = min(4u * quad + lane, count - 1u);
    let row = element / params.width;
    let label = label_of(row);
    if (label >= 0) {
      let s = load2_states(row * params.parts);
      let share = exp(v[lane] - s.x) / s.y;
      result[lane] = (share - select(0.0, 1.0, element - row * params.width == u32(label))) / params.n_valid;
    }
  }
  store4_result(quad, result);
}

// One workgroup adds the losses of all rows.
//! module: cross_entropy_loss
//! uses: cross_entropy_params
// Some devices have numbers for the logarithms of NaN and of 0.
fn logarithm(sum: f32) -> f32 {
  let bits = bitcast<u32>(sum);
  let is_lost = bits == 0u || (bits & 0x7fffffffu) > 0x7f800000u;
  return select(log(sum), bitcast<f32>(bits | 0x7fc00000u), is_lost);
}

var<workgroup> losses: array<f32, 64>;

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32) {
  var loss = 0.0;
  for (var row = lane; row < params.rows; row += WG) {
    let label = label_of(row);
    if (label >= 0) {
      let s = load2_states(row * params.parts);
      loss += (s.x + logarithm(s.y) - load_source(row * params.width + u32(label))) / params.n_valid;
    }
  }
  losses[lane] = loss;
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      losses[lane] += losses[lane + half];
    }
  }
  if (lane == 0u) {
    store4_result(0u, vec4<f32>(losses[0], 0.0, 0.0, 0.0));
  }
}
