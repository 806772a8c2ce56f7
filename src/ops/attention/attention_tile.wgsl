// Attention for GPUs: a workgroup has ROWS query rows that share a key head (its heads first, then the next position) and
// one part of the keys, KEYS of them at a time, with an online softmax. For the scores a lane has four rows and two
// keys; for the weighted sum it has a vec4 of the result in eight rows, and where lanes are left they share the keys. Of
// longer rows, queries are loaded a piece at a time, and each piece of KEYS vec4s of the result has a workgroup of its own.
// ROWS * KEYS = 8 * WG.
// Bindings: query, key, value, result, perhaps mask.
//! uses: attention_params
//! slots: softmax
//
// On a discrete GPU: every key and value is read from memory once per ROWS rows. A decode step with grouped heads has no
// more than eight, so it reads the cache once and is bound by that; with 64 keys or more per part there are hundreds of
// workgroups. A prompt has tiles of 32. Keys come by way of workgroup memory, 256 vec4s at a time: neighbouring lanes read
// 64 bytes or more of a key, so all that is fetched is used; so are values, by neighbouring lanes, and each of them by
// ROWS / 8 groups of lanes. Scores take six loads from workgroup memory for eight dots, the sum three for 32
// multiply-adds. Bank conflicts are two-way at most: keys are an odd number of vec4s apart, and what runs of lanes know
// is in banks of its own. Two barriers per 256 vec4s of keys, and two per KEYS keys; 15.9 KB of workgroup memory, of
// the 16 that every device has.

override ROWS: u32 = 8u;
override KEYS: u32 = 64u;

var<workgroup> queries: array<vec4<f32>, 512>;    // [row, quad of a piece]; at the end, sums of other lanes
var<workgroup> staged: array<vec4<f32>, 320>;     // [key, quad of a stage]; then the weights [four rows, key]
var<workgroup> row_parts: array<vec4<f32>, 128>;  // of four rows, what runs of lanes know
var<workgroup> row_kept: array<vec4<f32>, 8>;     // [four rows]
var<workgroup> row_largest: array<vec4<f32>, 8>;

fn dots(at: u32, width: u32, k: vec4<f32>) -> vec4<f32> {
  return vec4<f32>(dot(queries[at], k), dot(queries[at + width], k), dot(queries[at + 2u * width], k),
                   dot(queries[at + 3u * width], k));
}

// Four rows, each multiplied by its own number.
fn scaled(m: mat4x4<f32>, by: vec4<f32>) -> mat4x4<f32> {
  return mat4x4<f32>(m[0] * by.x, m[1] * by.y, m[2] * by.z, m[3] * by.w);
}

// The sums of lanes that have the same four rows, `stride` lanes apart: the first of them gets all.
fn total(own: mat4x4<f32>, lane: u32, stride: u32, slices: u32) -> mat4x4<f32> {
  workgroupBarrier();
  queries[lane] = own[0];
  queries[WG + lane] = own[1];
  queries[2u * WG + lane] = own[2];
  queries[3u * WG + lane] = own[3];
  workgroupBarrier();
  var all = own;
  for (var i = lane + stride; i < min(lane + slices * stride, WG); i += stride) {
    all += mat4x4<f32>(queries[i], queries[WG + i], queries[2u * WG + i], queries[3u * WG + i]);
  }
  return all;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
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
  let team = KEYS / 2u;
  let member = lane % team;
  let four = lane / team;
  let items = min(ROWS * tile + 4u * four + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(count - 1u));
  let rows = items / params.group;
  let heads = key_head * params.group + items % params.group;
  let mask_at = batch * params.mask_strides.x + heads * params.mask_strides.y + rows * params.mask_strides.z;
  let key_at = batch * params.key_strides.x + key_head * params.key_strides.y;
  let value_at = batch * params.value_strides.x + key_head * params.value_strides.y;
  let begin = part * params.part_keys;
  var end = min(begin + params.part_keys, params.keys);
  var limits = vec4<u32>(end);
  if (params.causal == 1u) {
    limits = min(limits, params.first + rows + 1u);
    end = min(end, params.first + min(ROWS * tile + ROWS - 1u, count - 1u) / params.group + 1u);
  }

  // In the weighted sum a lane has quad j of eight rows, and every slices-th key.
  let lanes = params.lanes_per_row;
  let slices = KEYS / lanes;
  let j = KEYS * column + lane % lanes;
  let slice = lane / lanes % slices;
  let eight = lane / KEYS;
  let run = run_of(lane, team);
  let held = 512u / ROWS;   // vec4s of each query
  let stage = 256u / KEYS;  // vec4s of each key
  let pitch = stage + 1u;
  var near = mat4x4<f32>();
  var far = mat4x4<f32>();
  var largest = vec4<f32>(LOWEST);
  var sum = vec4<f32>();
  for (var c = begin; c < end; c += KEYS) {
    var s0 = vec4<f32>();
    var s1 = vec4<f32>();
    for (var piece = 0u; piece < params.quads; piece += held) {
      let width = min(held, params.quads - piece);
      // A piece that is all of the rows stays.
      if (c == begin || params.quads > held) {
        workgroupBarrier();
        for (var i = lane; i < ROWS * width; i += WG) {
          let item = min(ROWS * tile + i / width, count - 1u);
          let row = item / params.group;
          let head = key_head * params.group + item - row * params.group;
          let at = batch * params.query_strides.x + head * params.query_strides.y + row * params.query_strides.z;
          queries[i] = query4(at, piece + i % width) * params.scale;
        }
      }
      for (var first = 0u; first < width; first += stage) {
        let quads = min(stage, width - first);
        workgroupBarrier();
        for (var i = lane; i < KEYS * stage; i += WG) {
          let key = i / stage;
          let q = i % stage;
          if (q < quads && c + key < end) {
            staged[key * pitch + q] = key4(key_at + (c + key) * params.key_strides.z, piece + first + q);
          }
        }
        workgroupBarrier();
        for (var q = 0u; q < quads; q++) {
          let at = 4u * four * width + first + q;
          s0 += dots(at, width, staged[member * pitch + q]);
          s1 += dots(at, width, staged[(team + member) * pitch + q]);
        }
      }
    }
    let key = c + member;
    let is_seen0 = vec4<u32>(key) < limits;
    let is_seen1 = vec4<u32>(key + team) < limits;
    s0 = select(vec4<f32>(LOWEST), biased(s0, mask_at, key), is_seen0);
    s1 = select(vec4<f32>(LOWEST), biased(s1, mask_at, key + team), is_seen1);
    let most = most_of(max(s0, s1), team, run);
    if (lane % run == 0u) {
      row_parts[run_place(lane)] = most;
      set_run(lane, run);
    }
    workgroupBarrier();
    var now = largest;
    for (var i = four * team; i < (four + 1u) * team; i += run_at(i)) {
      now = max(now, row_parts[run_place(i)]);
    }
    let kept = exp(largest - now);
    let w0 = select(vec4<f32>(), exp(s0 - now), is_seen0);
    let w1 = select(vec4<f32>(), exp(s1 - now), is_seen1);
    largest = now;
    sum = sum * kept + w0 + w1;
    staged[four * KEYS + member] = w0;
    staged[four * KEYS + team + member] = w1;
    if (member == 0u) {
      row_kept[four] = kept;
    }
    workgroupBarrier();
    if (j < params.value_quads) {
      near = scaled(near, row_kept[2u * eight]);
      far = scaled(far, row_kept[2u * eight + 1u]);
      for (var k = slice; k < min(KEYS, end - c); k += slices) {
        let v = value4(value_at + (c + k) * params.value_strides.z, j);
        near += scaled(mat4x4<f32>(v, v, v, v), staged[2u * eight * KEYS + k]);
        far += scaled(mat4x4<f32>(v, v, v, v), staged[(2u * eight + 1u) * KEYS + k]);
      }
    }
  }

  let part_sum = sum_of(sum, team, run);
  if (lane % run == 0u) {
    row_parts[run_place(lane)] = part_sum;
    set_run(lane, run);
  }
  workgroupBarrier();
  if (member == 0u) {
    var all = vec4<f32>();
    for (var i = lane; i < lane + team; i += run_at(i)) {
      all += row_parts[run_place(i)];
    }
    row_kept[four] = all;
    row_largest[four] = largest;
  }
  workgroupBarrier();
  if (slices > 1u) {
    near = total(near, lane, lanes, slices);
    far = total(far, lane, lanes, slices);
  }
  if (j >= params.value_quads || slice > 0u) {
    return;
  }
  var results = array<vec4<f32>, 8>(near[0], near[1], near[2], near[3], far[0], far[1], far[2], far[3]);
  for (var n = 0u; n < 8u; n++) {
    let r = 8u * eight + n;
    let item = ROWS * tile + r;
    if (item < count) {
      let row = item / params.group;
      let head = key_head * params.group + item - row * params.group;
      let at = batch * params.result_strides.x + head * params.result_strides.y + row * params.result_strides.z;
      let all = row_kept[r / 4u][r % 4u];
      if (params.in_parts == 1u) {
        let to = (at * params.parts + part) * (params.value_quads + 1u);
        if (j == 0u) {
          store4_result(to, vec4<f32>(row_largest[r / 4u][r % 4u], all, 0.0, 0.0));
        }
        store4_result(to + 1u + j, results[n]);
      } else {
        // No keys at all give 0; keys that are all masked by infinity give 0 / 0.
        store4_result(at * params.value_quads + j, results[n] * select(1.0 / all, 0.0, params.keys == 0u));
      }
    }
  }
}

// The largest and the sum of what a team of lanes has: a run of them passes values to each other, the rest goes by way
// of workgroup memory. Here a lane is alone.
//! module: softmax_in_memory
fn run_of(lane: u32, team: u32) -> u32 {
  return 1u;
}
fn run_place(lane: u32) -> u32 {
  return lane;
}
fn set_run(lane: u32, run: u32) {}
fn run_at(lane: u32) -> u32 {
  return 1u;
}
fn most_of(v: vec4<f32>, team: u32, run: u32) -> vec4<f32> {
  return v;
}
fn sum_of(v: vec4<f32>, team: u32, run: u32) -> vec4<f32> {
  return v;
}

//! module: softmax_by_subgroups
//! uses: subgroup_runs
//! needs: subgroups
var<workgroup> runs: array<u32, 128>;
fn set_run(lane: u32, run: u32) {
  runs[lane] = run;
}
fn run_at(lane: u32) -> u32 {
  return runs[lane];
}
fn most_of(own: vec4<f32>, team: u32, run: u32) -> vec4<f32> {
  var v = own;
  for (var distance = 1u; distance < team; distance *= 2u) {
    let other = subgroupShuffleXor(v, distance);
    v = select(v, max(v, other), distance < run);
  }
  return v;
}
fn sum_of(own: vec4<f32>, team: u32, run: u32) -> vec4<f32> {
  var v = own;
  for (var distance = 1u; distance < team; distance *= 2u) {
    let other = subgroupShuffleXor(v, distance);
    v = select(v, v + other, distance < run);
  }
  return v;
}
