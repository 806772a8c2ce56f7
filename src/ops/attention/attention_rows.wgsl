// Attention without barriers, for CPU adapters: a thread has four query rows that share a key head (its heads first,
// then the next position) and one part of the keys, eight keys at a time, with an online softmax. Every key and value
// is loaded once for four rows; queries and sums are met once per eight keys and stay in memory, so that any head size
// is the same small kernel: arrays in registers would have to be unrolled, which takes drivers many seconds to compile.
// Bindings: query, key, value, result, perhaps mask.
//! uses: attention_params

fn scores(q0: vec4<f32>, q1: vec4<f32>, q2: vec4<f32>, q3: vec4<f32>, k: vec4<f32>) -> vec4<f32> {
  return vec4<f32>(dot(q0, k), dot(q1, k), dot(q2, k), dot(q3, k));
}

// The four rows' weights of a key.
fn weights(s: vec4<f32>, largest: vec4<f32>, key: u32, limits: vec4<u32>) -> vec4<f32> {
  return select(vec4<f32>(0.0), exp(s - largest), vec4<u32>(key) < limits);
}

fn seen(s: vec4<f32>, key: u32, limits: vec4<u32>) -> vec4<f32> {
  return select(vec4<f32>(LOWEST), s, vec4<u32>(key) < limits);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  // Neighbouring lanes: the key heads of a tile, which have the same number of keys to see.
  let i = thread_index(id, groups);
  let key_head = i % params.key_heads;
  let part = (i / params.key_heads) % params.parts;
  let tile = (i / (params.key_heads * params.parts)) % params.tiles;
  let batch = i / (params.key_heads * params.parts * params.tiles);
  if (batch >= params.batch) {
    return;
  }
  // Rows too many repeat the last one.
  let count = params.rows * params.group;
  let items = min(4u * tile + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(count - 1u));
  let rows = items / params.group;
  let heads = key_head * params.group + items % params.group;
  let query_at = batch * params.query_strides.x + heads * params.query_strides.y + rows * params.query_strides.z;
  let key_at = batch * params.key_strides.x + key_head * params.key_strides.y;
  let mask_at = batch * params.mask_strides.x + heads * params.mask_strides.y + rows * params.mask_strides.z;
  let value_at = batch * params.value_strides.x + key_head * params.value_strides.y;
  let row_at = batch * params.result_strides.x + heads * params.result_strides.y + rows * params.result_strides.z;
  let to = select(row_at * params.value_quads, (row_at * params.parts + part) * (params.value_quads + 1u) + 1u,
                  params.in_parts == 1u);
  let begin = part * params.part_keys;
  var limits = vec4<u32>(min(begin + params.part_keys, params.keys));
  if (params.causal == 1u) {
    limits = min(limits, params.first + rows + 1u);
  }
  let end = limits.w;

  for (var j = 0u; j < params.value_quads; j++) {
    store4_result(to.x + j, vec4<f32>(0.0));
    store4_result(to.y + j, vec4<f32>(0.0));
    store4_result(to.z + j, vec4<f32>(0.0));
    store4_result(to.w + j, vec4<f32>(0.0));
  }
  var largest = vec4<f32>(LOWEST);
  var sum = vec4<f32>(0.0);
  for (var c = begin; c < end; c += 8u) {
    let near = min(c + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(end - 1u));
    let far = min(c + vec4<u32>(4u, 5u, 6u, 7u), vec4<u32>(end - 1u));
    let near_keys = key_at + near * params.key_strides.z;
    let far_keys = key_at + far * params.key_strides.z;
    let near_values = value_at + near * params.value_strides.z;
    let far_values = value_at + far * params.value_strides.z;
    var s0 = vec4<f32>(0.0);
    var s1 = vec4<f32>(0.0);
    var s2 = vec4<f32>(0.0);
    var s3 = vec4<f32>(0.0);
    var s4 = vec4<f32>(0.0);
    var s5 = vec4<f32>(0.0);
    var s6 = vec4<f32>(0.0);
    var s7 = vec4<f32>(0.0);
    for (var j = 0u; j < params.quads; j++) {
      let q0 = query4(query_at.x, j);
      let q1 = query4(query_at.y, j);
      let q2 = query4(query_at.z, j);
      let q3 = query4(query_at.w, j);
      s0 += scores(q0, q1, q2, q3, key4(near_keys.x, j));
      s1 += scores(q0, q1, q2, q3, key4(near_keys.y, j));
      s2 += scores(q0, q1, q2, q3, key4(near_keys.z, j));
      s3 += scores(q0, q1, q2, q3, key4(near_keys.w, j));
      s4 += scores(q0, q1, q2, q3, key4(far_keys.x, j));
      s5 += scores(q0, q1, q2, q3, key4(far_keys.y, j));
      s6 += scores(q0, q1, q2, q3, key4(far_keys.z, j));
      s7 += scores(q0, q1, q2, q3, key4(far_keys.w, j));
    }
    s0 = seen(biased(s0 * params.scale, mask_at, c), c, limits);
    s1 = seen(biased(s1 * params.scale, mask_at, c + 1u), c + 1u, limits);
    s2 = seen(biased(s2 * params.scale, mask_at, c + 2u), c + 2u, limits);
    s3 = seen(biased(s3 * params.scale, mask_at, c + 3u), c + 3u, limits);
    s4 = seen(biased(s4 * params.scale, mask_at, c + 4u), c + 4u, limits);
    s5 = seen(biased(s5 * params.scale, mask_at, c + 5u), c + 5u, limits);
    s6 = seen(biased(s6 * params.scale, mask_at, c + 6u), c + 6u, limits);
    s7 = seen(biased(s7 * params.scale, mask_at, c + 7u), c + 7u, limits);
    let now = max(largest, max(max(max(s0, s1), max(s2, s3)), max(max(s4, s5), max(s6, s7))));
    let kept = exp(largest - now);
    largest = now;
    let w0 = weights(s0, now, c, limits);
    let w1 = weights(s1, now, c + 1u, limits);
    let w2 = weights(s2, now, c + 2u, limits);
    let w3 = weights(s3, now, c + 3u, limits);
    let w4 = weights(s4, now, c + 4u, limits);
    let w5 = weights(s5, now, c + 5u, limits);
    let w6 = weights(s6, now, c + 6u, limits);
    let w7 = weights(s7, now, c + 7u, limits);
    sum = sum * kept + ((w0 + w1) + (w2 + w3)) + ((w4 + w5) + (w6 + w7));
    for (var j = 0u; j < params.value_quads; j++) {
      let v0 = value4(near_values.x, j);
      let v1 = value4(near_values.y, j);
      let v2 = value4(near_values.z, j);
      let v3 = value4(near_values.w, j);
      let v4 = value4(far_values.x, j);
      let v5 = value4(far_values.y, j);
      let v6 = value4(far_values.z, j);
      let v7 = value4(far_values.w, j);
      let r0 = load4_result(to.x + j) * kept.x + w0.x * v0 + w1.x * v1 + w2.x * v2 + w3.x * v3 + w4.x * v4 +
               w5.x * v5 + w6.x * v6 + w7.x * v7;
      let r1 = load4_result(to.y + j) * kept.y + w0.y * v0 + w1.y * v1 + w2.y * v2 + w3.y * v3 + w4.y * v4 +
               w5.y * v5 + w6.y * v6 + w7.y * v7;
      let r2 = load4_result(to.z + j) * kept.z + w0.z * v0 + w1.z * v1 + w2.z * v2 + w3.z * v3 + w4.z * v4 +
               w5.z * v5 + w6.z * v6 + w7.z * v7;
      let r3 = load4_result(to.w + j) * kept.w + w0.w * v0 + w1.w * v1 + w2.w * v2 + w3.w * v3 + w4.w * v4 +
               w5.w * v5 + w6.w * v6 + w7.w * v7;
      store4_result(to.x + j, r0);
      store4_result(to.y + j, r1);
      store4_result(to.z + j, r2);
      store4_result(to.w + j, r3);
    }
  }
  if (params.in_parts == 1u) {
    store4_result(to.x - 1u, vec4<f32>(largest.x, sum.x, 0.0, 0.0));
    store4_result(to.y - 1u, vec4<f32>(largest.y, sum.y, 0.0, 0.0));
    store4_result(to.z - 1u, vec4<f32>(largest.z, sum.z, 0.0, 0.0));
    store4_result(to.w - 1u, vec4<f32>(largest.w, sum.w, 0.0, 0.0));
    return;
  }
  // No keys at all give 0; keys that are all masked by infinity give 0 / 0.
  let inverse = select(1.0 / sum, vec4<f32>(0.0), params.keys == 0u);
  for (var r = 0u; r < min(4u, count - 4u * tile); r++) {
    for (var j = 0u; j < params.value_quads; j++) {
      store4_result(to[r] + j, load4_result(to[r] + j) * inverse[r]);
    }
  }
}
