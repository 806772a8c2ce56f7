// The states that the threads of a workgroup have of one line, merged: all of them get the same one. WG is a power of
// two, 256 at most, and a workgroup comes here once.

//! module: joined_states
var<workgroup> folded: array<S, 256>;

// log2(WG) + 1 barriers.
//! module: join_by_halves
//! uses: joined_states
struct Lane {
  @builtin(local_invocation_index) index: u32,
}
fn joined(s: S, lane: Lane) -> S {
  folded[lane.index] = s;
  workgroupBarrier();
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    if (lane.index < half) {
      folded[lane.index] = merge(folded[lane.index], folded[lane.index + half]);
    }
    workgroupBarrier();
  }
  return folded[0];
}

// One barrier: neighbours pass each other their states, then all threads merge what the subgroups have. A subgroup is
// a run of neighbouring threads, as many as the device says when it runs; a workgroup may be less than one.
//! module: join_by_subgroups
//! uses: joined_states
//! needs: subgroups
struct Lane {
  @builtin(local_invocation_index) index: u32,
  @builtin(subgroup_size) subgroup: u32,
}
fn joined(own: S, lane: Lane) -> S {
  let size = min(lane.subgroup, WG);
  var s = own;
  // As far as any subgroup goes: Tint does not see that all threads have the same size.
  for (var distance = 1u; distance < min(WG, 128u); distance *= 2u) {
    let other = subgroupShuffleXor(s, distance);
    if (distance < size) {
      s = merge(s, other);
    }
  }
  if (lane.index % size == 0u) {
    folded[lane.index / size] = s;
  }
  workgroupBarrier();
  s = folded[0];
  for (var i = 1u; i < WG / size; i++) {
    s = merge(s, folded[i]);
  }
  return s;
}
