// First half of a sum: thread (output, part) adds every parts-th of the output's elements.
// Bindings: source, partial_sums [outputs, parts]. Line: T (the type it adds in).

struct Params {
  outputs: u32,
  reduced: u32,
  parts: u32,
  kept_rank: u32,
  reduced_rank: u32,
  neighbours: u32,
  divisor: f32,
  pad: u32,
  kept_sizes: array<vec4<u32>, 2>,
  kept_strides: array<vec4<u32>, 2>,
  reduced_sizes: array<vec4<u32>, 2>,
  reduced_strides: array<vec4<u32>, 2>,
}
@group(0) @binding(0) var<uniform> params: Params;

fn output_offset(output: u32) -> u32 {
  var rest = output;
  var offset = 0u;
  for (var d = params.kept_rank; d > 0u; d--) {
    let k = d - 1u;
    let size = params.kept_sizes[k >> 2u][k & 3u];
    offset += (rest % size) * params.kept_strides[k >> 2u][k & 3u];
    rest = rest / size;
  }
  return offset;
}

fn element_offset(element: u32) -> u32 {
  var rest = element;
  var offset = 0u;
  for (var d = params.reduced_rank; d > 0u; d--) {
    let k = d - 1u;
    let size = params.reduced_sizes[k >> 2u][k & 3u];
    offset += (rest % size) * params.reduced_strides[k >> 2u][k & 3u];
    rest = rest / size;
  }
  return offset;
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.outputs * params.parts) {
    return;
  }
  var output = i / params.parts;
  var part = i % params.parts;
  if (params.neighbours == 1u) {
    output = i % params.outputs;
    part = i / params.outputs;
  }
  let base = output_offset(output);
  var total = T(0);
  if (params.reduced_rank <= 1u) {
    // The usual case, a single run: no division in the loop.
    let stride = params.reduced_strides[0].x;
    var at = base + part * stride;
    for (var element = part; element < params.reduced; element += params.parts) {
      total += T(load_source(at));
      at += params.parts * stride;
    }
  } else {
    for (var element = part; element < params.reduced; element += params.parts) {
      total += T(load_source(base + element_offset(element)));
    }
  }
  store_partial_sums(output * params.parts + part, total);
}
