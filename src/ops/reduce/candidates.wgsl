// The largest of each four elements, and the largest of each four of those: a thread takes sixteen quads. It folds their
// exponentials, too.
// Bindings: levels; source, where the elements are logits.
//! uses: candidate_peaks

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.count) {
    take_sixteen(i);
  }
}

// The same for GPUs: four neighbours take the sixteen quads, four that lie together at a time, and pass each other their
// peaks. Where they are no neighbours in their subgroup, the first takes all.
//! module: candidates_by_four
//! uses: candidate_peaks, subgroup_runs
//! needs: subgroups

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let thread = thread_index(id, groups);
  let i = thread / 4u;
  let lane = thread % 4u;
  let run = run_of(thread, 4u);
  state = start();
  var own = vec4<i32>();
  var tops = vec4<i32>();
  for (var k = 0u; k < 4u; k++) {
    let p = peak(16u * i + 4u * k + lane);
    let pair = vec2<i32>(p, subgroupShuffleXor(p, 1u));
    let near = select(pair, pair.yx, (lane & 1u) == 1u);
    let far = subgroupShuffleXor(near, 2u);
    let peaks = select(vec4<i32>(near, far), vec4<i32>(far, near), lane >= 2u);
    own = select(own, peaks, k == lane);
    tops = vec4<i32>(tops.yzw, largest(peaks));
  }
  var all = merge(state, subgroupShuffleXor(state, 1u));
  all = merge(all, subgroupShuffleXor(all, 2u));
  if (i < params.count && run == 4u) {
    store4_levels(params.to + thread, own);
    if (lane == 0u) {
      store_tops(i, tops, all);
    }
  } else if (i < params.count && lane == 0u) {
    take_sixteen(i);
  }
}

//! module: candidate_peaks
//! uses: candidate_params
//! slots: fold, part
var<private> state: S;
fn peak(quad: u32) -> i32 {
  if (quad >= params.groups) {
    return NOTHING;
  }
  return largest(take(quad));
}
fn store_tops(i: u32, tops: vec4<i32>, s: S) {
  store4_levels(params.to + 4u * params.stride + i, tops);
  store4_levels(params.to + 5u * params.stride + i, vec4<i32>(bitcast<vec2<i32>>(s), 0, 0));
}
fn take_sixteen(i: u32) {
  state = start();
  var tops = vec4<i32>();
  for (var k = 4u * i; k < 4u * i + 4u; k++) {
    let peaks = vec4<i32>(peak(4u * k), peak(4u * k + 1u), peak(4u * k + 2u), peak(4u * k + 3u));
    store4_levels(params.to + k, peaks);
    tops = vec4<i32>(tops.yzw, largest(peaks));
  }
  store_tops(i, tops, state);
}

//! module: take_logits
fn take(quad: u32) -> vec4<i32> {
  let v = load4_source(params.base + quad);
  let is_in = in_row(quad);
  state = merge(state, lift4(select(vec4<f32>(LOWEST), v, is_in), 0u, 0u));
  return keys_in(v, is_in);
}

//! module: take_peaks
fn take(quad: u32) -> vec4<i32> {
  state = merge(state, bitcast<vec2<f32>>(load4_levels(params.states + quad).xy));
  return load4_levels(params.base + quad);
}

// What the kernel that ranks candidates has, too.
//! module: candidate_params
struct Params {
  groups: u32,    // quads to look at
  base: u32,      // where they begin in the source, or in levels
  states: u32,    // where levels has their states
  shift: u32,     // elements of the row's first quad that are not in the row
  width: u32,     // elements of the row
  to: u32,        // where results go in levels: peaks of quads, after 4 * stride those of peaks, after 5 * stride states
  stride: u32,
  count: u32,     // threads, or how many keys are kept
  step: u32,      // 1: groups are all of a level; 2: each is followed by its number in the level
  children: u32,  // where the groups lie whose peaks are ranked
  parts: u32,     // states
}
@group(0) @binding(0) var<uniform> params: Params;

// Keys are integers in the order of the floats, with one zero, and NaN at the ends. What is no element is below them all.
const NOTHING = -0x7fffffffi - 1i;
fn turn(bits: vec4<i32>) -> vec4<i32> {
  return bits ^ ((bits >> vec4<u32>(31u)) & vec4<i32>(0x7fffffff));
}
fn keys_in(v: vec4<f32>, is_in: vec4<bool>) -> vec4<i32> {
  let bits = bitcast<vec4<i32>>(v);
  return select(vec4<i32>(NOTHING), turn(select(bits, vec4<i32>(), bits == vec4<i32>(NOTHING))), is_in);
}
fn in_row(quad: u32) -> vec4<bool> {
  let i = vec4<u32>(4u * quad) + vec4<u32>(0u, 1u, 2u, 3u);
  return (i >= vec4<u32>(params.shift)) & (i < vec4<u32>(params.shift + params.width));
}
fn largest(v: vec4<i32>) -> i32 {
  return max(max(v.x, v.y), max(v.z, v.w));
}
