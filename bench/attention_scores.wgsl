// First rung of attention, 1 of 3: one thread per score.

struct Sizes {
  rows: u32,
  keys: u32,
  first: u32,
  heads: u32,
  group: u32,
  quads: u32,
  scale: f32,
}
@group(0) @binding(0) var<uniform> params: Sizes;
@group(0) @binding(1) var<storage, read> query: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> key: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> scores: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.x + 64u * groups.x * id.y;
  let c = i % params.keys;
  let row = (i / params.keys) % params.rows;
  let head = i / (params.keys * params.rows);
  if (head >= params.heads) {
    return;
  }
  if (c > params.first + row) {
    scores[i] = -3.4028234e38;
    return;
  }
  let q = (row * params.heads + head) * params.quads;
  let k = (c * (params.heads / params.group) + head / params.group) * params.quads;
  var sum = vec4<f32>(0.0);
  for (var j = 0u; j < params.quads; j++) {
    sum += query[q + j] * key[k + j];
  }
  scores[i] = (sum.x + sum.y + sum.z + sum.w) * params.scale;
}
