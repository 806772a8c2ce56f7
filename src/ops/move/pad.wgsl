// A tensor with a border of one value: one thread makes four neighbouring output elements, which are one vec4 of the
// source or of the border where all runs are whole vec4s (`vectors`; then all sizes count vec4s).
// Bindings: source, result.
//! proven: what lies beside the source is not read
//! uses: coordinates
//! slots: type

struct Params {
  quads: u32,
  rank: u32,
  vectors: u32,
  value: u32,
  sizes: array<vec4<u32>, 2>,
  strides: array<vec4<u32>, 2>,
  borders: array<vec4<u32>, 2>,  // before the source, negative (modulo 2^32) where it is cropped
  extents: array<vec4<u32>, 2>,  // of the source
}
@group(0) @binding(0) var<uniform> params: Params;

// A place in the source, and in how many dimensions it is beside it.
alias Place = vec2<u32>;
fn offset(k: u32, coordinate: u32) -> Place {
  let at = coordinate - params.borders[k >> 2u][k & 3u];
  return vec2<u32>(at * params.strides[k >> 2u][k & 3u], select(0u, 1u, at >= params.extents[k >> 2u][k & 3u]));
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.quads) {
    return;
  }
  var values = vec4<T>(bitcast<T>(params.value));
  if (params.vectors == 1u) {
    let at = place(i);
    if (at.y == 0u) {
      values = load4_source(at.x);
    }
  } else {
    for (var lane = 0u; lane < 4u; lane++) {
      let at = place(4u * i + lane);
      if (at.y == 0u) {
        values[lane] = load_source(at.x);
      }
    }
  }
  store4_result(i, values);
}
