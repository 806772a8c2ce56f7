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
  sizes: array<vec4<u32>, 4>,    // of the kept dimensions, then from REDUCED on of the reduced ones
  strides: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> params: Params;

const KEPT = 0u;
const REDUCED = 8u;

// Where the index-th combination of the dimensions from `first` on lies in the source.
fn offset(index: u32, first: u32, rank: u32) -> u32 {
  var rest = index;
  var sum = 0u;
  for (var d = rank; d > 0u; d--) {
    let k = first + d - 1u;
    let size = params.sizes[k >> 2u][k & 3u];
    sum += (rest % size) * params.strides[k >> 2u][k & 3u];
    rest = rest / size;
  }
  return sum;
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
  let base = offset(output, KEPT, params.kept_rank);
  var total = T(0);
  if (params.reduced_rank <= 1u) {
    // The usual case, a single run: no division in the loop.
    let stride = params.strides[REDUCED >> 2u].x;
    var at = base + part * stride;
    for (var element = part; element < params.reduced; element += params.parts) {
      total += T(load_source(at));
      at += params.parts * stride;
    }
  } else {
    for (var element = part; element < params.reduced; element += params.parts) {
      total += T(load_source(base + offset(element, REDUCED, params.reduced_rank)));
    }
  }
  store_partial_sums(output * params.parts + part, total);
}
