// A tensor with a border of one value: one thread makes four neighbouring output elements, which are one vec4 of the
// source or of the border where all runs are whole vec4s (`vectors`; then all sizes count vec4s).
// Bindings: source, result. Lines: T, fill().

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

const OUTSIDE = 0xffffffffu;

// Where output element (or vec4) i lies in the source.
fn place(i: u32) -> u32 {
  var rest = i;
  var at = 0u;
  for (var d = params.rank; d > 0u; d--) {
    let k = d - 1u;
    let size = params.sizes[k >> 2u][k & 3u];
    let above = rest / size;
    let coordinate = rest - above * size - params.borders[k >> 2u][k & 3u];
    if (coordinate >= params.extents[k >> 2u][k & 3u]) {
      return OUTSIDE;
    }
    at += coordinate * params.strides[k >> 2u][k & 3u];
    rest = above;
  }
  return at;
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.quads) {
    return;
  }
  var values = vec4<T>(fill());
  if (params.vectors == 1u) {
    let at = place(i);
    if (at != OUTSIDE) {
      values = load4_source(at);
    }
  } else {
    for (var lane = 0u; lane < 4u; lane++) {
      let at = place(4u * i + lane);
      if (at != OUTSIDE) {
        values[lane] = load_source(at);
      }
    }
  }
  store4_result(i, values);
}
