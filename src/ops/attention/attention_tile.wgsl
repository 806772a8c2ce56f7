// Attention for GPUs: a workgroup of 64 lanes has eight query rows that share a key head (its heads first, then the
// next position) and one part of the keys, 64 keys at a time, with an online softmax. For the scores a lane has a key,
// for the weighted sum it has a vec4 of the result in as many rows as there are lanes left. Of longer rows than 64 vec4s,
// queries are loaded a piece at a time, and each piece of the result has a workgroup of its own.
// Bindings: query, key, value, result, perhaps mask.
//! uses: attention_params
//! slots: largest
//
// On a discrete GPU: every key and value is read from memory once per eight rows, so a decode step with grouped heads
// reads the cache once: it moves keys * size * 8 bytes per key head and is bound by that; with 64 keys or more per part
// there are hundreds of workgroups. Keys come by way of workgroup memory, four vec4s of each at a time: four neighbouring
// lanes read 64 bytes of a key there, so all that is fetched is used; values are read by neighbouring lanes too. A
// prompt reads the keys from the level-2 cache, 1/8 load per multiply. Bank conflicts are two-way at most: the rows of
// `staged` are five vec4s apart, and of `scores` neighbouring lanes have neighbouring ones. Two barriers per four vec4s of
// 64 keys, and four or five per 64 keys; 15.4 KB of workgroup memory, of the 16 that every device has.

const LANES = 64u;
const ROWS = 8u;
const STAGE = 4u;   // vec4s of a key that are staged at once
const PITCH = 5u;   // from key to key

var<workgroup> queries: array<vec4<f32>, 512>;   // [row, quad of a piece]
var<workgroup> staged: array<vec4<f32>, 320>;    // [key, quad of a stage]
var<workgroup> scores: array<vec4<f32>, 128>;    // [half of the rows, key]; the weights, later
var<workgroup> row_largest: array<f32, 8>;
var<workgroup> row_kept: array<f32, 8>;

fn dots(first: u32, j: u32, k: vec4<f32>) -> vec4<f32> {
  let width = min(LANES, params.quads);
  let at = first * width + j;
  return vec4<f32>(dot(queries[at], k), dot(queries[at + width], k), dot(queries[at + 2u * width], k),
                   dot(queries[at + 3u * width], k));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        me: Lane) {
  let lane = me.index;
  let group = group_index(id, groups);
  let column = group % params.columns;
  let unit = group / params.columns;
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
  let value_at = batch * params.value_strides.x + key_head * params.value_strides.y;
  let begin = part * params.part_keys;
  var limits0 = vec4<u32>(min(begin + params.part_keys, params.keys));
  var limits1 = limits0;
  if (params.causal == 1u) {
    limits0 = min(limits0, params.first + rows0 + 1u);
    limits1 = min(limits1, params.first + rows1 + 1u);
  }
  let end = limits1.w;

  if (lane < ROWS) {
    row_largest[lane] = LOWEST;
  }
  workgroupBarrier();

  // In the weighted sum a lane has quad j of rows own, own + stride, ...
  let lanes = params.lanes_per_row;
  let j = LANES * column + lane % lanes;
  let own = lane / lanes;
  let stride = LANES / lanes;
  var results: array<vec4<f32>, 8>;
  var sums: array<f32, 8>;
  for (var c = begin; c < end; c += LANES) {
    let key = c + lane;
    var s0 = vec4<f32>(0.0);
    var s1 = vec4<f32>(0.0);
    for (var piece = 0u; piece < params.quads; piece += LANES) {
      let width = min(LANES, params.quads - piece);
      // A piece that is all of the rows stays.
      if (c == begin || params.quads > LANES) {
        workgroupBarrier();
        for (var i = lane; i < ROWS * width; i += LANES) {
          let r = i / width;
          let item = min(ROWS * tile + r, count - 1u);
          let row = item / params.group;
          let head = key_head * params.group + item - row * params.group;
          let at = batch * params.query_strides.x + head * params.query_strides.y + row * params.query_strides.z;
          let quad = i - r * width;
          queries[r * min(LANES, params.quads) + quad] = query4(at, piece + quad) * params.scale;
        }
        workgroupBarrier();
      }
      for (var stage = 0u; stage < width; stage += STAGE) {
        let quads = min(STAGE, width - stage);
        workgroupBarrier();
        for (var i = lane; i < LANES * STAGE; i += LANES) {
          let q = i % STAGE;
          if (q < quads && c + i / STAGE < end) {
            staged[i / STAGE * PITCH + q] =
                key4(key_at + (c + i / STAGE) * params.key_strides.z, piece + stage + q);
          }
        }
        workgroupBarrier();
        for (var q = 0u; q < quads; q++) {
          let k = staged[lane * PITCH + q];
          s0 += dots(0u, stage + q, k);
          s1 += dots(4u, stage + q, k);
        }
      }
    }
    if (key < end) {
      s0 = biased(s0, mask_at0, key);
      s1 = biased(s1, mask_at1, key);
    }
    s0 = select(vec4<f32>(LOWEST), s0, vec4<u32>(key) < limits0);
    s1 = select(vec4<f32>(LOWEST), s1, vec4<u32>(key) < limits1);
    share_largest(s0, s1, me);
    workgroupBarrier();
    if (lane < ROWS) {
      let now = max(row_largest[lane], shared_largest(lane, me));
      row_kept[lane] = exp(row_largest[lane] - now);
      row_largest[lane] = now;
    }
    workgroupBarrier();
    let largest0 = vec4<f32>(row_largest[0], row_largest[1], row_largest[2], row_largest[3]);
    let largest1 = vec4<f32>(row_largest[4], row_largest[5], row_largest[6], row_largest[7]);
    scores[lane] = select(vec4<f32>(0.0), exp(s0 - largest0), vec4<u32>(key) < limits0);
    scores[LANES + lane] = select(vec4<f32>(0.0), exp(s1 - largest1), vec4<u32>(key) < limits1);
    workgroupBarrier();
    if (j < params.value_quads) {
      for (var n = 0u; n < ROWS; n++) {
        let row = own + n * stride;
        if (row < ROWS) {
          results[n] *= row_kept[row];
          sums[n] *= row_kept[row];
        }
      }
      for (var k = 0u; k < min(LANES, end - c); k++) {
        let v = value4(value_at + (c + k) * params.value_strides.z, j);
        for (var n = 0u; n < ROWS; n++) {
          let row = own + n * stride;
          if (row < ROWS) {
            let w = scores[row / 4u * LANES + k][row % 4u];
            results[n] += w * v;
            sums[n] += w;
          }
        }
      }
    }
    workgroupBarrier();
  }

  if (j >= params.value_quads) {
    return;
  }
  for (var n = 0u; n < ROWS; n++) {
    let r = own + n * stride;
    let item = ROWS * tile + r;
    if (r < ROWS && item < count) {
      let row = item / params.group;
      let head = key_head * params.group + item - row * params.group;
      let at = batch * params.result_strides.x + head * params.result_strides.y + row * params.result_strides.z;
      if (params.in_parts == 1u) {
        let to = (at * params.parts + part) * (params.value_quads + 1u);
        if (j == 0u) {
          store4_result(to, vec4<f32>(row_largest[r], sums[n], 0.0, 0.0));
        }
        store4_result(to + 1u + j, results[n]);
      } else {
        // No keys at all give 0; keys that are all masked by infinity give 0 / 0.
        store4_result(at * params.value_quads + j, results[n] * select(1.0 / sums[n], 0.0, params.keys == 0u));
      }
    }
  }
}

// The largest of the scores that 64 lanes have of each row: what is known of it before a barrier, and after it.
//! module: largest_in_memory
struct Lane {
  @builtin(local_invocation_index) index: u32,
}
var<workgroup> row_parts: array<f32, 64>;  // [row, eighth of the keys]
fn share_largest(s0: vec4<f32>, s1: vec4<f32>, lane: Lane) {
  scores[lane.index] = s0;
  scores[LANES + lane.index] = s1;
  workgroupBarrier();
  let r = lane.index / 8u;
  var most = LOWEST;
  for (var k = lane.index % 8u; k < LANES; k += 8u) {
    most = max(most, scores[r / 4u * LANES + k][r % 4u]);
  }
  row_parts[lane.index] = most;
}
fn shared_largest(row: u32, lane: Lane) -> f32 {
  var most = LOWEST;
  for (var k = 0u; k < 8u; k++) {
    most = max(most, row_parts[8u * row + k]);
  }
  return most;
}

// A subgroup is a run of neighbouring lanes; WebGPU's have four or more.
//! module: largest_by_subgroups
//! needs: subgroups
struct Lane {
  @builtin(local_invocation_index) index: u32,
  @builtin(subgroup_size) subgroup: u32,
}
var<workgroup> row_parts: array<vec4<f32>, 32>;  // [subgroup, half of the rows]
fn share_largest(s0: vec4<f32>, s1: vec4<f32>, lane: Lane) {
  let most0 = subgroupMax(s0);
  let most1 = subgroupMax(s1);
  let size = min(lane.subgroup, LANES);
  if (lane.index % size == 0u) {
    row_parts[lane.index / size * 2u] = most0;
    row_parts[lane.index / size * 2u + 1u] = most1;
  }
}
fn shared_largest(row: u32, lane: Lane) -> f32 {
  var most = LOWEST;
  for (var i = 0u; i < LANES; i += min(lane.subgroup, LANES)) {
    most = max(most, row_parts[i / min(lane.subgroup, LANES) * 2u + row / 4u][row % 4u]);
  }
  return most;
}
