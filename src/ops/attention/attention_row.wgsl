// As attention_rows, where one row is all that shares a key head (a decode step without grouped heads): three idle rows
// of four would make it slower, not faster.
// Bindings: query, key, value, result, perhaps mask.
//! uses: attention_params

const FOUR = vec4<u32>(0u, 1u, 2u, 3u);

fn scores(q: vec4<f32>, at: vec4<u32>, j: u32) -> vec4<f32> {
  return vec4<f32>(dot(q, key4(at.x, j)), dot(q, key4(at.y, j)), dot(q, key4(at.z, j)), dot(q, key4(at.w, j)));
}

fn seen(s: vec4<f32>, at: u32, first: u32, end: u32) -> vec4<f32> {
  let b = vec4<f32>(bias(at, first), bias(at, first + 1u), bias(at, first + 2u), bias(at, first + 3u));
  return select(vec4<f32>(LOWEST), s * params.scale + b, first + FOUR < vec4<u32>(end));
}

fn weighted(w: vec4<f32>, at: vec4<u32>, j: u32) -> vec4<f32> {
  return w.x * value4(at.x, j) + w.y * value4(at.y, j) + w.z * value4(at.z, j) + w.w * value4(at.w, j);
}

fn most(v: vec4<f32>) -> f32 {
  return max(max(v.x, v.y), max(v.z, v.w));
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  let head = i % params.key_heads;
  let part = (i / params.key_heads) % params.parts;
  let batch = i / (params.key_heads * params.parts);
  if (batch >= params.batch) {
    return;
  }
  let query_at = batch * params.query_strides.x + head * params.query_strides.y;
  let key_at = batch * params.key_strides.x + head * params.key_strides.y;
  let mask_at = batch * params.mask_strides.x + head * params.mask_strides.y;
  let value_at = batch * params.value_strides.x + head * params.value_strides.y;
  let row = batch * params.result_strides.x + head * params.result_strides.y;
  let to = select(row * params.value_quads, (row * params.parts + part) * (params.value_quads + 1u) + 1u,
                  params.in_parts == 1u);
  let begin = part * params.part_keys;
  var end = min(begin + params.part_keys, params.keys);
  if (params.causal == 1u) {
    end = min(end, params.first + 1u);
  }

  for (var j = 0u; j < params.value_quads; j++) {
    store4_result(to + j, vec4<f32>(0.0));
  }
  var largest = LOWEST;
  var sum = 0.0;
  for (var c = begin; c < end; c += 8u) {
    let near = min(c + FOUR, vec4<u32>(end - 1u));
    let far = min(c + 4u + FOUR, vec4<u32>(end - 1u));
    let near_keys = key_at + near * params.key_strides.z;
    let far_keys = key_at + far * params.key_strides.z;
    let near_values = value_at + near * params.value_strides.z;
    let far_values = value_at + far * params.value_strides.z;
    var s0 = vec4<f32>(0.0);
    var s1 = vec4<f32>(0.0);
    for (var j = 0u; j < params.quads; j++) {
      let q = query4(query_at, j);
      s0 += scores(q, near_keys, j);
      s1 += scores(q, far_keys, j);
    }
    s0 = seen(s0, mask_at, c, end);
    s1 = seen(s1, mask_at, c + 4u, end);
    let now = max(largest, max(most(s0), most(s1)));
    let kept = exp(largest - now);
    largest = now;
    let w0 = select(vec4<f32>(0.0), exp(s0 - now), c + FOUR < vec4<u32>(end));
    let w1 = select(vec4<f32>(0.0), exp(s1 - now), c + 4u + FOUR < vec4<u32>(end));
    sum = sum * kept + dot(w0 + w1, vec4<f32>(1.0));
    for (var j = 0u; j < params.value_quads; j++) {
      store4_result(to + j, load4_result(to + j) * kept + weighted(w0, near_values, j) + weighted(w1, far_values, j));
    }
  }
  if (params.in_parts == 1u) {
    store4_result(to - 1u, vec4<f32>(largest, sum, 0.0, 0.0));
    return;
  }
  // No keys at all give 0; keys that are all masked by infinity give 0 / 0.
  let inverse = select(1.0 / sum, 0.0, params.keys == 0u);
  for (var j = 0u; j < params.value_quads; j++) {
    store4_result(to + j, load4_result(to + j) * inverse);
  }
}
