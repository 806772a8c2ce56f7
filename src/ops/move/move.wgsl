// Elements in another order. Where all runs are whole vec4s, a thread copies a number of them (`vectors`; then the
// innermost size counts such pieces, and places are those of vec4s). Else (0) it makes four elements, each found by
// itself.
// Distances are modulo 2^32, so they may be negative.
// Bindings: source, result. Line: T.

struct Params {
  threads: u32,
  count: u32,
  first: u32,
  rank: u32,
  vectors: u32,
  sizes: array<vec4<u32>, 4>,
  strides: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> params: Params;

// Where output element (or piece) i lies in the source.
fn place(i: u32) -> u32 {
  var rest = i;
  var at = params.first;
  for (var d = params.rank - 1u; d > 0u; d--) {
    let size = params.sizes[d >> 2u][d & 3u];
    let above = rest / size;
    at += (rest - above * size) * params.strides[d >> 2u][d & 3u];
    rest = above;
  }
  return at + rest * params.strides[0].x;
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.threads) {
    return;
  }
  if (params.vectors > 0u) {
    let at = place(i);
    for (var k = 0u; k < params.vectors; k++) {
      store4_result(i * params.vectors + k, load4_source(at + k));
    }
    return;
  }
  let inner = params.rank - 1u;
  let size = params.sizes[inner >> 2u][inner & 3u];
  let stride = params.strides[inner >> 2u][inner & 3u];
  var column = (4u * i) % size;
  var at = place(4u * i);
  var values: vec4<T>;
  for (var lane = 0u; lane < 4u; lane++) {
    values[lane] = load_source(at);
    column++;
    at += stride;
    if (column == size) {
      column = 0u;
      at = place(min(4u * i + lane + 1u, params.count - 1u));
    }
  }
  store4_result(i, values);
}
