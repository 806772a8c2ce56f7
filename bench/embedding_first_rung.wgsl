// The first rung of the 4-bit gather: one thread per 32 values, scalar loads and stores.

struct Sizes {
  blocks: u32,
  width: u32,
  groups: u32,
  group_size: u32,
}
@group(0) @binding(0) var<uniform> params: Sizes;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;
@group(0) @binding(3) var<storage, read> ids: array<i32>;
@group(0) @binding(4) var<storage, read_write> result: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let block = id.x + 64u * groups.x * id.y;
  if (block >= params.blocks) {
    return;
  }
  let per_row = params.width / 32u;
  let position = block / per_row;
  let first = (block % per_row) * 32u;
  let row = u32(ids[position]);
  for (var k = 0u; k < 32u; k++) {
    let column = first + k;
    let byte = row * (params.width / 2u) + column / 2u;
    let nibble = (weight[byte / 4u] >> ((byte % 4u) * 8u + (column % 2u) * 4u)) & 15u;
    let scale = scales[row * params.groups + column / params.group_size];
    result[position * params.width + column] = (f32(nibble) - 8.0) * scale;
  }
}
