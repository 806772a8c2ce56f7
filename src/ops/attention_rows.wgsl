// Attention without barriers, for CPU adapters: a lane has one query row of one head, and all lanes of a workgroup
// share a key head, so every key and value is loaded once for all of them. Keys are streamed in blocks of four with an
// online softmax; a lane holds its query, its sum and its result so far.
// Bindings: query, key, value, result, perhaps mask. Lines: DV (vec4s per row), mask_at().

struct Params {
  batch: u32,
  key_heads: u32,
  group: u32,  // heads that share a key head
  rows: u32,
  keys: u32,
  size: u32,   // elements per row
  tiles: u32,  // workgroups that share a key head and a part
  parts: u32,
  part_keys: u32,
  causal: u32,  // 1: row r sees the keys up to first + r
  first: u32,
  scale: f32,
  query_strides: vec4<u32>,  // of batch, head and row, in elements
  key_strides: vec4<u32>,
  mask_strides: vec4<u32>,   // the last one is of the keys
}
@group(0) @binding(0) var<uniform> params: Params;

override ALIGNED: u32 = 0u;  // 1: rows are whole vec4s
override MASKED: u32 = 0u;
override PARTS: u32 = 0u;  // 1: the result is one part's (largest score, sum, weighted values), for attention_merge

const LOWEST = -3.4028234e38;

fn query4(at: u32, j: u32) -> vec4<f32> {
  if (ALIGNED == 1u) {
    return load4_query(at / 4u + j);
  }
  var v = vec4<f32>(0.0);
  for (var lane = 0u; lane < min(4u, params.size - 4u * j); lane++) {
    v[lane] = load_query(at + 4u * j + lane);
  }
  return v;
}

fn key4(at: u32, j: u32) -> vec4<f32> {
  if (ALIGNED == 1u) {
    return load4_key(at / 4u + j);
  }
  var v = vec4<f32>(0.0);
  for (var lane = 0u; lane < min(4u, params.size - 4u * j); lane++) {
    v[lane] = load_key(at + 4u * j + lane);
  }
  return v;
}

fn value4(at: u32, j: u32) -> vec4<f32> {
  if (ALIGNED == 1u) {
    return load4_value(at / 4u + j);
  }
  var v = vec4<f32>(0.0);
  for (var lane = 0u; lane < min(4u, params.size - 4u * j); lane++) {
    v[lane] = load_value(at + 4u * j + lane);
  }
  return v;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let unit = group_index(id, groups);
  let part = unit % params.parts;
  let tile = (unit / params.parts) % params.tiles;
  let shared_head = unit / (params.parts * params.tiles);
  let batch = shared_head / params.key_heads;
  if (batch >= params.batch) {
    return;
  }
  let key_head = shared_head - batch * params.key_heads;
  // Neighbouring lanes: the heads of a row, then the next row. A lane too many repeats the last row and stores nothing.
  let count = params.rows * params.group;
  let item = min(tile * WG + lane, count - 1u);
  let row = item / params.group;
  let head = key_head * params.group + item - row * params.group;
  let query_at = dot(vec3<u32>(batch, head, row), params.query_strides.xyz);
  let key_at = dot(vec2<u32>(batch, key_head), params.key_strides.xy);
  let mask_at_row = dot(vec3<u32>(batch, head, row), params.mask_strides.xyz);

  let last_row = min(tile * WG + WG - 1u, count - 1u) / params.group;
  let begin = part * params.part_keys;
  var end = min(begin + params.part_keys, params.keys);
  var limit = params.keys;
  if (params.causal == 1u) {
    end = min(end, params.first + last_row + 1u);
    limit = min(limit, params.first + row + 1u);
  }

  var query: array<vec4<f32>, DV>;
  var sum4: array<vec4<f32>, DV>;
  for (var j = 0u; j < DV; j++) {
    query[j] = query4(query_at, j) * params.scale;
    sum4[j] = vec4<f32>(0.0);
  }
  var largest = LOWEST;
  var sum = 0.0;
  for (var c = begin; c < end; c += 4u) {
    let at = key_at + min(vec4<u32>(c, c + 1u, c + 2u, c + 3u), vec4<u32>(end - 1u)) * params.key_strides.z;
    var s0 = vec4<f32>(0.0);
    var s1 = vec4<f32>(0.0);
    var s2 = vec4<f32>(0.0);
    var s3 = vec4<f32>(0.0);
    for (var j = 0u; j < DV; j++) {
      s0 += query[j] * key4(at.x, j);
      s1 += query[j] * key4(at.y, j);
      s2 += query[j] * key4(at.z, j);
      s3 += query[j] * key4(at.w, j);
    }
    let one = vec4<f32>(1.0);
    var scores = vec4<f32>(dot(s0, one), dot(s1, one), dot(s2, one), dot(s3, one));
    if (MASKED == 1u) {
      let m = mask_at_row + min(vec4<u32>(c, c + 1u, c + 2u, c + 3u), vec4<u32>(end - 1u)) * params.mask_strides.w;
      scores += vec4<f32>(mask_at(m.x), mask_at(m.y), mask_at(m.z), mask_at(m.w));
    }
    let seen = vec4<u32>(c, c + 1u, c + 2u, c + 3u) < vec4<u32>(min(limit, end));
    scores = select(vec4<f32>(LOWEST), scores, seen);
    let now = max(max(max(scores.x, scores.y), max(scores.z, scores.w)), largest);
    let p = select(vec4<f32>(0.0), exp(scores - now), seen);
    let kept = exp(largest - now);
    largest = now;
    sum = sum * kept + dot(p, one);
    for (var j = 0u; j < DV; j++) {
      sum4[j] = sum4[j] * kept + p.x * value4(at.x, j) + p.y * value4(at.y, j) + p.z * value4(at.z, j) +
                p.w * value4(at.w, j);
    }
  }
  if (tile * WG + lane >= count) {
    return;
  }
  if (PARTS == 1u) {
    let to = (query_at / params.size * params.parts + part) * (DV + 1u);
    store4_result(to, vec4<f32>(largest, sum, 0.0, 0.0));
    for (var j = 0u; j < DV; j++) {
      store4_result(to + 1u + j, sum4[j]);
    }
  } else {
    // No keys at all give 0; keys that are all masked by infinity give 0 / 0.
    let inverse = select(1.0 / sum, 0.0, params.keys == 0u);
    for (var j = 0u; j < DV; j++) {
      store4_result(query_at / 4u + j, sum4[j] * inverse);
    }
  }
}
