// Scale and zero point of each row: a workgroup makes those of four rows, a quarter of it the extremes of each.
// Bindings: source [rows, width], scale, zero_point.
//
// On a discrete GPU: each row is read once, by 64 neighbouring lanes; 6 barriers for four rows.

struct Params {
  rows: u32,
  width: u32,
  quant_min: f32,
  quant_max: f32,
  eps: f32,
}
@group(0) @binding(0) var<uniform> params: Params;

var<workgroup> extremes: array<vec2<f32>, 256>;  // x: the smallest, y: the largest; zero counts as an element

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
  let quad = group_index(id, groups);
  if (quad >= (params.rows + 3u) / 4u) {
    return;
  }
  let team = WG / 4u;
  let member = lane % team;
  let row = min(4u * quad + lane / team, params.rows - 1u);
  var seen = vec2<f32>(0.0);
  if (params.width % 4u == 0u) {
    let per_row = params.width / 4u;
    var smallest = vec4<f32>(0.0);
    var largest = vec4<f32>(0.0);
    for (var i = member; i < per_row; i += team) {
      let v = load4_source(row * per_row + i);
      smallest = min(smallest, v);
      largest = max(largest, v);
    }
    seen = vec2<f32>(min(min(smallest.x, smallest.y), min(smallest.z, smallest.w)),
                     max(max(largest.x, largest.y), max(largest.z, largest.w)));
  } else {
    for (var i = member; i < params.width; i += team) {
      let x = load_source(row * params.width + i);
      seen = vec2<f32>(min(seen.x, x), max(seen.y, x));
    }
  }
  extremes[lane] = seen;
  workgroupBarrier();
  for (var half = team / 2u; half > 0u; half /= 2u) {
    if (member < half) {
      let other = extremes[lane + half];
      extremes[lane] = vec2<f32>(min(extremes[lane].x, other.x), max(extremes[lane].y, other.y));
    }
    workgroupBarrier();
  }
  if (lane > 0u) {
    return;
  }
  let smallest = vec4<f32>(extremes[0].x, extremes[team].x, extremes[2u * team].x, extremes[3u * team].x);
  let largest = vec4<f32>(extremes[0].y, extremes[team].y, extremes[2u * team].y, extremes[3u * team].y);
  let step = max((largest - smallest) / (params.quant_max - params.quant_min), vec4<f32>(params.eps));
  let zero = clamp(params.quant_min - round(smallest / step), vec4<f32>(params.quant_min), vec4<f32>(params.quant_max));
  store4_scale(quad, step);
  store4_zero_point(quad, vec4<i32>(zero));
}
