// Last part of a fold to one element per line: one thread makes four of them.
// Bindings: states [lines, parts], result. Lines: fold_params, T, what a Fold gives, R and finish().

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  if (quad >= (params.lines + 3u) / 4u) {
    return;
  }
  let parts = select(params.parts, 1u, params.merged == 1u);
  var results = vec4<R>();
  for (var lane = 0u; lane < 4u; lane++) {
    let first = min(4u * quad + lane, params.lines - 1u) * params.parts;
    var s = state_at(first);
    for (var part = 1u; part < parts; part++) {
      s = merge(s, state_at(first + part));
    }
    results[lane] = finish(s);
  }
  store4_result(quad, results);
}
