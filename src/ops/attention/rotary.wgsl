// Rotary embedding of one tensor or two, and perhaps their way into the caches: one thread makes four neighbouring
// elements of one target. Bindings: x (and y), the tables, the targets. What fills the slots takes the number of the
// target: 0, 1, or 2 for values that go through as they are.
//! proven: rows of tables are counted
//! slots: sources, targets, tables
//
// On a discrete GPU: every element is read once (twice in the half rotation, from cache) and written once, neighbouring
// lanes have neighbouring vec4s, and the tables' rows are shared by all heads of a position and come from cache. No
// barrier; it runs at the speed of a copy, and a decode step is one launch.

struct Params {
  quads: vec4<u32>,  // threads of each target; .w: elements per head
  first: vec4<u32>,  // quad where each target begins; .w: rotated elements per head
  heads: vec4<u32>,  // of each target; .w: positions
  skip: vec4<u32>,   // elements of the first quad that come before the first new one, per target; .w: first table row
  counts: vec4<u32>, // new elements of each target; .w: rows of the tables' part that is bound
}
@group(0) @binding(0) var<uniform> params: Params;

override HALVES: u32 = 0u;  // 0: pairs are neighbours, 1: pairs are half the rotated width apart
override QUADS: u32 = 0u;   // 1: each quad lies in one head, and so do its partners

// The row of element i's position in the tables' part, which is past its end where another part has it.
fn row_of(which: u32, i: u32) -> u32 {
  return params.skip.w + (i / (params.quads.w * params.heads[which])) % params.heads.w;
}

fn rotated(which: u32, i: u32) -> f32 {
  let size = params.quads.w;
  let width = params.first.w;
  let own = source(which, i);
  let d = i % size;
  if (which == 2u || d >= width) {
    return own;
  }
  let row = row_of(which, i);
  if (HALVES == 1u) {
    let at = row * width + d;
    if (d < width / 2u) {
      return own * cos_at(at) - source(which, i + width / 2u) * sin_at(at);
    }
    return own * cos_at(at) + source(which, i - width / 2u) * sin_at(at);
  }
  let at = row * (width / 2u) + d / 2u;
  if ((d & 1u) == 0u) {
    return own * cos_at(at) - source(which, i + 1u) * sin_at(at);
  }
  return own * cos_at(at) + source(which, i - 1u) * sin_at(at);
}

fn rotated4(which: u32, quad: u32) -> vec4<f32> {
  let size = params.quads.w / 4u;
  let width = params.first.w / 4u;
  let own = source4(which, quad);
  let d = quad % size;
  if (which == 2u || d >= width) {
    return own;
  }
  let row = row_of(which, 4u * quad);
  if (HALVES == 1u) {
    let at = 4u * (row * width + d);
    let c = vec4<f32>(cos_at(at), cos_at(at + 1u), cos_at(at + 2u), cos_at(at + 3u));
    let s = vec4<f32>(sin_at(at), sin_at(at + 1u), sin_at(at + 2u), sin_at(at + 3u));
    if (d < width / 2u) {
      return own * c - source4(which, quad + width / 2u) * s;
    }
    return own * c + source4(which, quad - width / 2u) * s;
  }
  let at = 2u * (row * width + d);
  let c = vec2<f32>(cos_at(at), cos_at(at + 1u));
  let s = vec2<f32>(sin_at(at), sin_at(at + 1u));
  return own * c.xxyy + own.yxwz * vec4<f32>(-s.x, s.x, -s.y, s.y);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  var i = thread_index(id, groups);
  var which = 0u;
  while (which < 3u && i >= params.quads[which]) {
    i -= params.quads[which];
    which++;
  }
  if (which == 3u) {
    return;
  }
  let quad = params.first[which] + i;
  if (QUADS == 1u) {
    if (row_of(which, 4u * i) < params.counts.w) {
      put4(which, quad, rotated4(which, i));
    }
    return;
  }
  // What lies in a quad beside the new elements stays.
  var values = held4(which, quad);
  for (var lane = 0u; lane < 4u; lane++) {
    let element = 4u * i + lane - params.skip[which];
    if (element < params.counts[which] && row_of(which, element) < params.counts.w) {
      values[lane] = rotated(which, element);
    }
  }
  put4(which, quad, values);
}
