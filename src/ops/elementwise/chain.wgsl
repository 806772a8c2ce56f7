// Elementwise ops joined: one thread makes four neighbouring elements. All is done by the tail, see chain.hpp.
// Bindings: result, and the operands.
//! proven: places are those of coordinates

struct Params {
  quads: u32,
  rank: u32,
  sizes: vec4<u32>,
  strides: array<vec4<u32>, 6>,  // of the operands
  tail: array<vec4<f32>, 8>,
}
@group(0) @binding(0) var<uniform> params: Params;

// Where an operand has what makes an element.
fn place(operand: u32, element: u32) -> u32 {
  var rest = element;
  var at = 0u;
  for (var d = params.rank; d > 0u; d--) {
    let above = rest / params.sizes[d - 1u];
    at += (rest - above * params.sizes[d - 1u]) * params.strides[operand][d - 1u];
    rest = above;
  }
  return at;
}

// Whether neighbours in the innermost dimension are neighbours in an operand, or else the same element.
fn is_run(operand: u32) -> bool {
  return params.strides[operand][max(params.rank, 1u) - 1u] == 1u;
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.quads) {
    store4_result(i, vec4<f32>());
  }
}

// Four neighbours, or one element, of an operand that is repeated; see tail.wgsl.
//! module: take_run
fn takeNTH(i: u32) -> vec4<f32> {
  let at = place(NTHu, 4u * i);
  if (is_run(NTHu)) {
    return vec4<f32>(load4_withNTH(at >> 2u));
  }
  return vec4<f32>(f32(load_withNTH(at)));
}

//! module: take_places
fn takeNTH(i: u32) -> vec4<f32> {
  return vec4<f32>(
    f32(load_withNTH(place(NTHu, 4u * i))),
    f32(load_withNTH(place(NTHu, 4u * i + 1u))),
    f32(load_withNTH(place(NTHu, 4u * i + 2u))),
    f32(load_withNTH(place(NTHu, 4u * i + 3u))),
  );
}
