// An op along lines in one go: a workgroup folds a line of whole vec4s, then makes its elements anew.
// Bindings: source, or a, b and sum; result; perhaps weight and bias.
//! uses: fold_params
//! slots: fold, apply, load
//
// On a discrete GPU: neighbouring lanes read and write neighbouring vec4s; the second read comes from the cache, so a
// line moves its bytes once in and once out. log2(WG) barriers for a line.

var<workgroup> folded: array<S, 256>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let line = group_index(id, groups);
  if (line >= params.lines) {
    return;
  }
  let per_line = params.width / 4u;
  let first = line * per_line;
  var s = start();
  for (var quad = lane; quad < per_line; quad += WG) {
    s = merge(s, lift4(first4(first + quad), 4u * quad, 1u));
  }
  folded[lane] = s;
  workgroupBarrier();
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    if (lane < half) {
      folded[lane] = merge(folded[lane], folded[lane + half]);
    }
    workgroupBarrier();
  }
  let d = done(folded[0]);
  for (var quad = lane; quad < per_line; quad += WG) {
    store4_result(first + quad, apply4(again4(first + quad), d, quad));
  }
}
