// The states that threads have of a line, merged. Each `team` neighbours have a line: join() takes their states, and
// then joined() gives any thread the state of the team that begins with thread `first`. WG is 256 at most, it and teams
// are powers of two, and a workgroup comes here once.

//! module: joined_states
var<workgroup> folded: array<S, 256>;
struct Lane {
  @builtin(local_invocation_index) index: u32,
}

// log2(team) + 1 barriers.
//! module: join_by_halves
//! uses: joined_states
fn join(s: S, lane: Lane, team: u32) {
  folded[lane.index] = s;
  workgroupBarrier();
  for (var half = team / 2u; half > 0u; half /= 2u) {
    if (lane.index % team < half) {
      folded[lane.index] = merge(folded[lane.index], folded[lane.index + half]);
    }
    workgroupBarrier();
  }
}
fn joined(first: u32, team: u32) -> S {
  return folded[first];
}

// One barrier: neighbours pass each other their states, then whoever asks merges what the runs of them have.
//! module: join_by_subgroups
//! uses: joined_states, subgroup_runs
//! needs: subgroups
var<workgroup> runs: array<u32, 256>;
fn join(own: S, lane: Lane, team: u32) {
  let run = run_of(lane.index, team);
  var s = own;
  for (var distance = 1u; distance < min(team, 128u); distance *= 2u) {
    let other = subgroupShuffleXor(s, distance);
    if (distance < run) {
      s = merge(s, other);
    }
  }
  if (lane.index % run == 0u) {
    folded[run_place(lane.index)] = s;
    runs[lane.index] = run;
  }
  workgroupBarrier();
}
fn joined(first: u32, team: u32) -> S {
  var s = folded[run_place(first)];
  for (var i = first + runs[first]; i < first + team; i += runs[i]) {
    s = merge(s, folded[run_place(i)]);
  }
  return s;
}

// How many neighbours a thread can pass values to, a power of two: it exchanges them with the one at each `distance` below
// that, so the first of such a run has those of all. WGSL does not say which threads of a workgroup are a subgroup, or
// how many, so they tell each other who they are: a partner that is another thread, or none, or that has met fewer ends
// the run. Loops go as far as any subgroup, because Tint does not see that all threads find the same.
//! module: subgroup_runs
//! needs: subgroups
fn run_of(index: u32, team: u32) -> u32 {
  var run = 1u;
  for (var distance = 1u; distance < min(team, 128u); distance *= 2u) {
    let other = subgroupShuffleXor(vec2<u32>(index, run), distance);
    if (run == distance && all(other == vec2<u32>(index ^ distance, run))) {
      run *= 2u;
    }
  }
  return run;
}
// Where what the run of a thread knows lies in workgroup memory: vec4s of runs that follow each other have no bank in
// common.
fn run_place(index: u32) -> u32 {
  return index ^ ((index >> 3u) & 7u);
}
