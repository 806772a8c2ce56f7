// Scale and zero point of each row: a workgroup makes those of four rows, a quarter of it the extremes of each.
// Bindings: source [rows, width], scale, zero_point.
//! uses: qparams_params
//! slots: qparams
//
// On a discrete GPU: each row is read once, by 64 neighbouring lanes; 6 barriers for four rows.

var<workgroup> extremes: array<vec3<f32>, 256>;  // the smallest, the largest, 1 after a NaN; zero counts as an element

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let quad = group_index(id, groups);
  if (quad >= (params.rows + 3u) / 4u) {
    return;
  }
  let team = WG / 4u;
  let member = lane % team;
  let row = min(4u * quad + lane / team, params.rows - 1u);
  var seen = vec3<f32>(0.0);
  if (params.width % 4u == 0u) {
    let per_row = params.width / 4u;
    var smallest = vec4<f32>(0.0);
    var largest = vec4<f32>(0.0);
    var nans = vec4<f32>(0.0);
    for (var i = member; i < per_row; i += team) {
      let v = load4_source(row * per_row + i);
      smallest = min(smallest, v);
      largest = max(largest, v);
      nans = max(nans, nan_of(v));
    }
    seen = vec3<f32>(min(min(smallest.x, smallest.y), min(smallest.z, smallest.w)),
                     max(max(largest.x, largest.y), max(largest.z, largest.w)),
                     max(max(nans.x, nans.y), max(nans.z, nans.w)));
  } else {
    for (var i = member; i < params.width; i += team) {
      let x = load_source(row * params.width + i);
      seen = vec3<f32>(min(seen.x, x), max(seen.y, x), max(seen.z, nan_of(vec4<f32>(x)).x));
    }
  }
  extremes[lane] = seen;
  workgroupBarrier();
  for (var half = team / 2u; half > 0u; half /= 2u) {
    if (member < half) {
      let a = extremes[lane];
      let b = extremes[lane + half];
      extremes[lane] = vec3<f32>(min(a.x, b.x), max(a.y, b.y), max(a.z, b.z));
    }
    workgroupBarrier();
  }
  if (lane == 0u) {
    store_qparams(quad, extremes[0], extremes[team], extremes[2u * team], extremes[3u * team]);
  }
}
