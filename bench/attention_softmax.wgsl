// First rung of attention, 2 of 3: one workgroup per row, in place, with trees in workgroup memory.

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
@group(0) @binding(1) var<storage, read_write> scores: array<f32>;

var<workgroup> tree: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let begin = id.x * params.keys;
  let count = params.first + id.x % params.rows + 1u;
  var largest = -3.4028234e38;
  for (var c = lane; c < count; c += 64u) {
    largest = max(largest, scores[begin + c]);
  }
  tree[lane] = largest;
  workgroupBarrier();
  for (var half = 32u; half > 0u; half /= 2u) {
    if (lane < half) {
      tree[lane] = max(tree[lane], tree[lane + half]);
    }
    workgroupBarrier();
  }
  largest = tree[0];
  workgroupBarrier();
  var sum = 0.0;
  for (var c = lane; c < count; c += 64u) {
    let weight = exp(scores[begin + c] - largest);
    scores[begin + c] = weight;
    sum += weight;
  }
  tree[lane] = sum;
  workgroupBarrier();
  for (var half = 32u; half > 0u; half /= 2u) {
    if (lane < half) {
      tree[lane] += tree[lane + half];
    }
    workgroupBarrier();
  }
  let inverse = 1.0 / tree[0];
  for (var c = lane; c < count; c += 64u) {
    scores[begin + c] *= inverse;
  }
}
