// Elements in another order: a thread copies a piece of a run, or makes four elements.
// Bindings: source, result.
//! uses: walk, one_stride, pieces
//! slots: type

fn source_at(i: u32) -> u32 {
  return params.first + place(i);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.threads) {
    return;
  }
  if (params.vectors > 0u) {
    copy_piece(i);
    return;
  }
  let inner = params.rank - 1u;
  let size = params.sizes[inner >> 2u][inner & 3u];
  let stride = params.strides[inner >> 2u][inner & 3u];
  var column = (4u * i) % size;
  var at = source_at(4u * i);
  var values: vec4<T>;
  for (var lane = 0u; lane < 4u; lane++) {
    values[lane] = load_source(at);
    column++;
    at += stride;
    if (column == size) {
      column = 0u;
      at = source_at(min(4u * i + lane + 1u, params.count - 1u));
    }
  }
  store4_result(i, values);
}
