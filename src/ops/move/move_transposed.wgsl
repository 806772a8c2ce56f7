// Elements in another order, where the source runs along another dimension than the output: one thread turns a block of
// four by four, so that both sides are read and written as vec4s. All sizes and strides count blocks and vec4s.
// Bindings: source, result.
//! proven: blocks are whole
//! uses: walk, two_strides
//! slots: type

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.threads) {
    return;
  }
  let block = place(i);
  let at = params.first + block.x;
  let to = block.y;
  let a = load4_source(at);
  let b = load4_source(at + params.row_stride);
  let c = load4_source(at + 2u * params.row_stride);
  let d = load4_source(at + 3u * params.row_stride);
  store4_result(to, vec4<T>(a.x, b.x, c.x, d.x));
  store4_result(to + params.other_row_stride, vec4<T>(a.y, b.y, c.y, d.y));
  store4_result(to + 2u * params.other_row_stride, vec4<T>(a.z, b.z, c.z, d.z));
  store4_result(to + 3u * params.other_row_stride, vec4<T>(a.w, b.w, c.w, d.w));
}
