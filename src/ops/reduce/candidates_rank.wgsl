// Groups of four keys, with what is known to have the largest: a thread counts how many come before its key, larger
// ones and of equal ones those with smaller numbers. So it knows the key's place in their order, without any other.
// Bindings: levels; source, where the next elements are logits; at the end values, ids and total.
//! uses: candidate_params
//! slots: part, fold

fn number(group: u32) -> u32 {
  return select(u32(load_levels(4u * (params.base + 2u * group + 1u))), group, params.step == 1u);
}

// The end of a loop. Lavapipe unrolls short loops whose end is a parameter, and so compiles a kernel in every dispatch
// that has another value: 1 ms. It does not where the thread has a say.
fn end_of(count: u32, thread: u32) -> u32 {
  return count + (thread >> 31u);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= 4u * params.groups) {
    return;
  }
  let lane = i & 3u;
  let own = 4u * number(i >> 2u) + lane;
  let key = load_levels(4u * (params.base + params.step * (i >> 2u)) + lane);
  var before = vec4<u32>();
  for (var group = 0u; group < end_of(params.groups, i); group++) {
    let keys = load4_levels(params.base + params.step * group);
    let numbers = vec4<u32>(4u * number(group)) + vec4<u32>(0u, 1u, 2u, 3u);
    let is_first = (keys > vec4<i32>(key)) | ((keys == vec4<i32>(key)) & (numbers < vec4<u32>(own)));
    before += select(vec4<u32>(), vec4<u32>(1u), is_first);
  }
  let place = before.x + before.y + before.z + before.w;
  if (place < params.count) {
    keep(place, own, key);
  }
}

//! module: keep_groups
fn keep(place: u32, own: u32, key: i32) {
  var keys = vec4<i32>(NOTHING);
  if (key != NOTHING) {
    keys = load4_levels(params.children + own);
  }
  store4_levels(params.to + 2u * place, keys);
  store4_levels(params.to + 2u * place + 1u, vec4<i32>(i32(own)));
}

//! module: keep_logits
fn keep(place: u32, own: u32, key: i32) {
  var keys = vec4<i32>(NOTHING);
  if (key != NOTHING) {
    keys = keys_in(load4_source(params.children + own), in_row(own));
  }
  store4_levels(params.to + 2u * place, keys);
  store4_levels(params.to + 2u * place + 1u, vec4<i32>(i32(own)));
}

//! module: keep_candidates
fn keep(place: u32, own: u32, key: i32) {
  store_values(place, bitcast<f32>(turn(vec4<i32>(key)).x));
  store_ids(place, i32(own - params.shift));
  if (place == 0u) {
    var s = start();
    for (var part = 0u; part < end_of(params.parts, own); part++) {
      s = merge(s, bitcast<vec2<f32>>(load4_levels(params.states + part).xy));
    }
    store_total(0u, s.y);
  }
}
