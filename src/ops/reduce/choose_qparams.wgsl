// Scale and zero point of each row: a workgroup makes those of four rows, a quarter of it the extremes of each.
// Bindings: source [rows, width], scale, zero_point.
//! uses: qparams_params
//! slots: qparams, fold, join
//
// On a discrete GPU: each row is read once, by 64 neighbouring lanes; for four rows 7 barriers, or one with subgroups.

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        lane: Lane) {
  let quad = group_index(id, groups);
  if (quad >= (params.rows + 3u) / 4u) {
    return;
  }
  let team = WG / 4u;
  let member = lane.index % team;
  let row = min(4u * quad + lane.index / team, params.rows - 1u);
  var seen = start();
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
    seen = S(min(min(smallest.x, smallest.y), min(smallest.z, smallest.w)),
             max(max(largest.x, largest.y), max(largest.z, largest.w)),
             max(max(nans.x, nans.y), max(nans.z, nans.w)), 0.0);
  } else {
    for (var i = member; i < params.width; i += team) {
      seen = merge(seen, lift(load_source(row * params.width + i), i));
    }
  }
  join(seen, lane, team);
  if (lane.index == 0u) {
    store_qparams(quad, joined(0u, team).xyz, joined(team, team).xyz, joined(2u * team, team).xyz,
                  joined(3u * team, team).xyz);
  }
}
