// Elements picked by indices along one dimension. Where all runs are whole vec4s, a thread copies a number of them
// (`vectors`; then the innermost size counts such pieces, and places are those of vec4s). Else (0) it makes four
// elements, each found by itself.
// Bindings: source, ids, result, perhaps fault. Line: T. Override COMBINED: ids are distances, worked out before.

struct Params {
  threads: u32,
  count: u32,
  rank: u32,
  vectors: u32,
  rows: u32,        // that an index may name
  row_stride: u32,  // the distance between two of them
  node: u32,
  site: u32,
  sizes: array<vec4<u32>, 2>,
  strides: array<vec4<u32>, 2>,     // in the source
  id_strides: array<vec4<u32>, 2>,  // among the indices
}
@group(0) @binding(0) var<uniform> params: Params;

override COMBINED: u32 = 0u;

// How far from the start the index at a position leads. One past the end is reported, and leads nowhere.
fn distance_of(position: u32) -> u32 {
  let index = load_ids(position);
  if (COMBINED == 1u) {
    return bitcast<u32>(index);
  }
  let row = bitcast<u32>(select(index, index + i32(params.rows), index < 0));
  if (row >= params.rows) {
    report_fault_at(params.node, params.site, position, index);
    return 0u;
  }
  return row * params.row_stride;
}

// Where output element (or piece) i lies in the source.
fn place(i: u32) -> u32 {
  var rest = i;
  var at = 0u;
  var position = 0u;
  for (var d = params.rank; d > 0u; d--) {
    let k = d - 1u;
    let size = params.sizes[k >> 2u][k & 3u];
    let above = rest / size;
    let coordinate = rest - above * size;
    at += coordinate * params.strides[k >> 2u][k & 3u];
    position += coordinate * params.id_strides[k >> 2u][k & 3u];
    rest = above;
  }
  return at + distance_of(position);
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
  var values: vec4<T>;
  for (var lane = 0u; lane < 4u; lane++) {
    values[lane] = load_source(place(min(4u * i + lane, params.count - 1u)));
  }
  store4_result(i, values);
}
