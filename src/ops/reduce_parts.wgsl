// Second half of a sum: one thread adds the parts of four outputs and divides.
// Bindings: partial_sums [outputs, parts], result. Line: T (the type it adds in).

struct Params {
  outputs: u32,
  reduced: u32,
  parts: u32,
  kept_rank: u32,
  reduced_rank: u32,
  neighbours: u32,
  divisor: f32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  if (quad >= (params.outputs + 3u) / 4u) {
    return;
  }
  var totals = vec4<T>();
  for (var lane = 0u; lane < 4u; lane++) {
    let output = min(4u * quad + lane, params.outputs - 1u);
    var total = T(0);
    for (var part = 0u; part < params.parts; part++) {
      total += load_partial_sums(output * params.parts + part);
    }
    totals[lane] = total;
  }
  store4_result(quad, totals / T(params.divisor));
}
