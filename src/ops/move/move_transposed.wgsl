// Elements in another order, where the source runs along another dimension than the output: one thread turns a block of
// four by four, so that both sides are read and written as vec4s. All sizes and strides count blocks and vec4s.
// Bindings: source, result. Line: T.

struct Params {
  blocks: u32,
  first: u32,
  rank: u32,
  row: u32,         // from one of a block's rows to the next in the source
  result_row: u32,  // and in the output
  sizes: array<vec4<u32>, 4>,
  strides: array<vec4<u32>, 4>,
  result_strides: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  var rest = thread_index(id, groups);
  if (rest >= params.blocks) {
    return;
  }
  var at = params.first;
  var to = 0u;
  for (var d = params.rank; d > 0u; d--) {
    let k = d - 1u;
    let size = params.sizes[k >> 2u][k & 3u];
    let above = rest / size;
    let coordinate = rest - above * size;
    at += coordinate * params.strides[k >> 2u][k & 3u];
    to += coordinate * params.result_strides[k >> 2u][k & 3u];
    rest = above;
  }
  let a = load4_source(at);
  let b = load4_source(at + params.row);
  let c = load4_source(at + 2u * params.row);
  let d = load4_source(at + 3u * params.row);
  store4_result(to, vec4<T>(a.x, b.x, c.x, d.x));
  store4_result(to + params.result_row, vec4<T>(a.y, b.y, c.y, d.y));
  store4_result(to + 2u * params.result_row, vec4<T>(a.z, b.z, c.z, d.z));
  store4_result(to + 3u * params.result_row, vec4<T>(a.w, b.w, c.w, d.w));
}
