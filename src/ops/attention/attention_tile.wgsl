// Attention for GPUs: a workgroup of 64 lanes has eight query rows that share a key head (its heads first, then the
// next position) and one part of the keys, 64 keys at a time, with an online softmax. For the scores a lane has a key,
// for the weighted sum it has a vec4 of the result in as many rows as there are lanes left.
// Bindings: query, key, value, result, perhaps mask.
//! uses: attention_params
//
// On a discrete GPU: every key and value is read from memory once per eight rows, so a decode step with grouped heads
// reads the cache once: it moves keys * size * 8 bytes per key head and is bound by that; with 64 keys or more per part
// there are hundreds of workgroups, which should reach some 70 % of the bandwidth (a lane's key is a row of its own, so
// the first pass uses whole cache lines only over four steps; values are read by neighbouring lanes). A prompt reads
// the keys from the level-2 cache, 1/8 load per multiply. Four barriers per 64 keys; 11 KB of workgroup memory.

const LANES = 64u;
const ROWS = 8u;

var<workgroup> queries: array<vec4<f32>, 512>;   // [row, quad]
var<workgroup> scores: array<vec4<f32>, 128>;    // [key, half of the rows]; the weights, later
var<workgroup> row_parts: array<f32, 64>;        // [row, eighth of the keys]
var<workgroup> row_largest: array<f32, 8>;
var<workgroup> row_kept: array<f32, 8>;

fn dots(first: u32, j: u32, k: vec4<f32>) -> vec4<f32> {
  let at = first * params.quads + j;
  return vec4<f32>(dot(queries[at], k), dot(queries[at + params.quads], k), dot(queries[at + 2u * params.quads], k),
                   dot(queries[at + 3u * params.quads], k));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let unit = group_index(id, groups);
  let key_head = unit % params.key_heads;
  let part = (unit / params.key_heads) % params.parts;
  let tile = (unit / (params.key_heads * params.parts)) % params.tiles;
  let batch = unit / (params.key_heads * params.parts * params.tiles);
  if (batch >= params.batch) {
    return;
  }
  // Rows too many repeat the last one.
  let count = params.rows * params.group;
  let items0 = min(ROWS * tile + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(count - 1u));
  let items1 = min(ROWS * tile + vec4<u32>(4u, 5u, 6u, 7u), vec4<u32>(count - 1u));
  let rows0 = items0 / params.group;
  let rows1 = items1 / params.group;
  let heads0 = key_head * params.group + items0 % params.group;
  let heads1 = key_head * params.group + items1 % params.group;
  let mask_at0 = batch * params.mask_strides.x + heads0 * params.mask_strides.y + rows0 * params.mask_strides.z;
  let mask_at1 = batch * params.mask_strides.x + heads1 * params.mask_strides.y + rows1 * params.mask_strides.z;
  let key_at = batch * params.key_strides.x + key_head * params.key_strides.y;
  let begin = part * params.part_keys;
  var limits0 = vec4<u32>(min(begin + params.part_keys, params.keys));
  var limits1 = limits0;
  if (params.causal == 1u) {
    limits0 = min(limits0, params.first + rows0 + 1u);
    limits1 = min(limits1, params.first + rows1 + 1u);
  }
  let end = limits1.w;

  for (var i = lane; i < ROWS * params.quads; i += LANES) {
    let r = i / params.quads;
    let item = min(ROWS * tile + r, count - 1u);
    let row = item / params.group;
    let head = key_head * params.group + item - row * params.group;
    let at = batch * params.query_strides.x + head * params.query_strides.y + row * params.query_strides.z;
    queries[i] = query4(at, i - r * params.quads) * params.scale;
  }
  if (lane < ROWS) {
    row_largest[lane] = LOWEST;
  }
  workgroupBarrier();

  // In the weighted sum a lane has quad j of rows own, own + stride, ...
  let j = lane % params.lanes_per_row;
  let own = lane / params.lanes_per_row;
  let stride = LANES / params.lanes_per_row;
  var results: array<vec4<f32>, 8>;
  var sums: array<f32, 8>;
  for (var c = begin; c < end; c += LANES) {
    let key = c + lane;
    var s0 = vec4<f32>(0.0);
    var s1 = vec4<f32>(0.0);
    if (key < end) {
      let at = key_at + key * params.key_strides.z;
      for (var q = 0u; q < params.quads; q++) {
        let k = key4(at, q);
        s0 += dots(0u, q, k);
        s1 += dots(4u, q, k);
      }
      s0 = biased(s0, mask_at0, key);
      s1 = biased(s1, mask_at1, key);
    }
    s0 = select(vec4<f32>(LOWEST), s0, vec4<u32>(key) < limits0);
    s1 = select(vec4<f32>(LOWEST), s1, vec4<u32>(key) < limits1);
    scores[2u * lane] = s0;
    scores[2u * lane + 1u] = s1;
    workgroupBarrier();
    let r = lane / 8u;
    var most = LOWEST;
    for (var k = 0u; k < 8u; k++) {
      most = max(most, scores[2u * (8u * (lane % 8u) + k) + r / 4u][r % 4u]);
    }
    row_parts[lane] = most;
    workgroupBarrier();
    if (lane < ROWS) {
      var now = row_largest[lane];
      for (var k = 0u; k < 8u; k++) {
        now = max(now, row_parts[8u * lane + k]);
      }
      row_kept[lane] = exp(row_largest[lane] - now);
      row_largest[lane] = now;
    }
    workgroupBarrier();
    let largest0 = vec4<f32>(row_largest[0], row_largest[1], row_largest[2], row_largest[3]);
    let largest1 = vec4<f32>(row_largest[4], row_largest[5], row_largest[6], row_largest[7]);
    scores[2u * lane] = select(vec4<f32>(0.0), exp(s0 - largest0), vec4<u32>(key) < limits0);
    scores[2u * lane + 1u] = select(vec4<f32>(0.0), exp(s1 - largest1), vec4<u32>(key) < limits1);
    workgroupBarrier();
    if (j < params.quads) {
      for (var n = 0u; n < ROWS; n++) {
        let row = own + n * stride;
        if (row < ROWS) {
          results[n] *= row_kept[row];
          sums[n] *= row_kept[row];
        }
      }
      for (var k = 0u; k < min(LANES, end - c); k++) {
        let v = value4(key_at + (c + k) * params.key_strides.z, j);
        for (var n = 0u; n < ROWS; n++) {
          let row = own + n * stride;
          if (row < ROWS) {
            let w = scores[2u * k + row / 4u][row % 4u];
            results[n] += w * v;
            sums[n] += w;
          }
        }
      }
    }
    workgroupBarrier();
  }

  if (j >= params.quads) {
    return;
  }
  for (var n = 0u; n < ROWS; n++) {
    let r = own + n * stride;
    let item = ROWS * tile + r;
    if (r < ROWS && item < count) {
      let row = item / params.group;
      let head = key_head * params.group + item - row * params.group;
      let at = batch * params.query_strides.x + head * params.query_strides.y + row * params.query_strides.z;
      if (params.in_parts == 1u) {
        let to = (at / params.size * params.parts + part) * (params.quads + 1u);
        if (j == 0u) {
          store4_result(to, vec4<f32>(row_largest[r], sums[n], 0.0, 0.0));
        }
        store4_result(to + 1u + j, results[n]);
      } else {
        // No keys at all give 0; keys that are all masked by infinity give 0 / 0.
        store4_result(at / 4u + j, results[n] * select(1.0 / sums[n], 0.0, params.keys == 0u));
      }
    }
  }
}
