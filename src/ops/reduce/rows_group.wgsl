// An op along lines in one go: a workgroup folds a line of whole vec4s, then makes its elements anew.
// Bindings: source, or a, b and sum; result; perhaps weight and bias.
//! proven: lines are whole vec4s
//! uses: fold_params
//! slots: fold, apply, load, join
//
// On a discrete GPU: neighbouring lanes read and write neighbouring vec4s; the second read comes from the cache, so a
// line moves its bytes once in and once out.

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, lane: Lane) {
  let line = group_index(id, groups);
  if (line >= params.lines) {
    return;
  }
  let per_line = params.width / 4u;
  let first = line * per_line;
  var s = start();
  for (var quad = lane.index; quad < per_line; quad += WG) {
    s = merge(s, lift4(first4(first + quad), 4u * quad, 1u));
  }
  join(s, lane, WG);
  let d = done(joined(0u, WG));
  for (var quad = lane.index; quad < per_line; quad += WG) {
    store4_result(first + quad, apply4(again4(first + quad), d, quad));
  }
}
