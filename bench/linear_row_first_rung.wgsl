// The first rung of the 4-bit linear for one row: 64 lanes share two columns, each lane takes every 64th word, and a
// tree in workgroup memory adds their sums.

struct Sizes {
  rows: u32,
  depth: u32,
  columns: u32,
  group_size: u32,
}
@group(0) @binding(0) var<uniform> params: Sizes;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read_write> result: array<f32>;

var<workgroup> sums: array<vec2<f32>, 64>;

fn word_sum(word: u32, low: vec4<f32>, high: vec4<f32>) -> f32 {
  let shifts = vec4<u32>(0u, 4u, 8u, 12u);
  let a = vec4<f32>((vec4<u32>(word) >> shifts) & vec4<u32>(15u)) - vec4<f32>(8.0);
  let b = vec4<f32>((vec4<u32>(word >> 16u) >> shifts) & vec4<u32>(15u)) - vec4<f32>(8.0);
  return dot(a, low) + dot(b, high);
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) id: vec3<u32>) {
  let column = id.x * 2u;
  let row = id.y;
  let words = params.depth / 8u;
  var sum = vec2<f32>();
  for (var i = lane; i < words; i += 64u) {
    let low = x[(row * words + i) * 2u];
    let high = x[(row * words + i) * 2u + 1u];
    let scale = i * 8u / params.group_size * params.columns + column;
    sum += vec2<f32>(word_sum(weight[column * words + i], low, high) * scales[scale],
                     word_sum(weight[(column + 1u) * words + i], low, high) * scales[scale + 1u]);
  }
  sums[lane] = sum;
  for (var half = 32u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      sums[lane] += sums[lane + half];
    }
  }
  if (lane == 0u) {
    result[row * params.columns + column] = sums[0].x;
    result[row * params.columns + column + 1u] = sums[0].y;
  }
}
