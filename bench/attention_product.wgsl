// First rung of attention, 3 of 3: one thread per vec4 of the result.

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
@group(0) @binding(1) var<storage, read> weights: array<f32>;
@group(0) @binding(2) var<storage, read> value: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> result: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.x + 64u * groups.x * id.y;
  let j = i % params.quads;
  let head = (i / params.quads) % params.heads;
  let row = i / (params.quads * params.heads);
  if (row >= params.rows) {
    return;
  }
  let begin = (head * params.rows + row) * params.keys;
  var sum = vec4<f32>(0.0);
  for (var c = 0u; c < params.first + row + 1u; c++) {
    sum += weights[begin + c] * value[(c * (params.heads / params.group) + head / params.group) * params.quads + j];
  }
  result[i] = sum;
}
