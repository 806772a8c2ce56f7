// An op along lines in one go, for CPU adapters: a thread folds a line of whole vec4s, then makes its elements anew.
// No barrier, so it beats a workgroup for each line wherever there are lines enough for all cores.
// Bindings: source, or a, b and sum; result; perhaps weight and bias.
//! proven: lines are whole vec4s
//! uses: fold_params
//! slots: fold, apply, load

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let line = thread_index(id, groups);
  if (line >= params.lines) {
    return;
  }
  let per_line = params.width / 4u;
  let first = line * per_line;
  var s = start();
  for (var quad = 0u; quad < per_line; quad++) {
    s = merge(s, lift4(first4(first + quad), 4u * quad, 1u));
  }
  let d = done(s);
  for (var quad = 0u; quad < per_line; quad++) {
    store4_result(first + quad, apply4(again4(first + quad), d, quad));
  }
}
