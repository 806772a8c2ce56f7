// Middle of a fold whose states are read more than once: one thread merges the states of a line into the first.
// Bindings: states [lines, parts].
//! proven: lines have as many states as there are parts
//! uses: fold_params
//! slots: fold, states

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let line = thread_index(id, groups);
  if (line >= params.lines) {
    return;
  }
  var s = state_at(line * params.parts);
  for (var part = 1u; part < params.parts; part++) {
    s = merge(s, state_at(line * params.parts + part));
  }
  set_state(line * params.parts, s);
}
