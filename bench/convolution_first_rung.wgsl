// The first rung of a convolution: one thread makes one result.

struct Sizes {
  channels: u32,  // of the input, per group
  columns: u32,   // of the result
  groups: u32,
  size: u32,      // of the input, and of the result, in each direction
  result: u32,
  kernel: u32,
  stride: u32,
  padding: u32,
}
@group(0) @binding(0) var<uniform> params: Sizes;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.x + 64u * groups.x * id.y;
  if (i >= params.columns * params.result * params.result) {
    return;
  }
  let column = i % params.result;
  let row = i / params.result % params.result;
  let out = i / (params.result * params.result);
  let first = out / (params.columns / params.groups) * params.channels;
  var sum = 0.0;
  for (var c = 0u; c < params.channels; c++) {
    for (var ky = 0u; ky < params.kernel; ky++) {
      for (var kx = 0u; kx < params.kernel; kx++) {
        let y = row * params.stride + ky - params.padding;
        let z = column * params.stride + kx - params.padding;
        if (y < params.size && z < params.size) {
          sum += x[((first + c) * params.size + y) * params.size + z] *
                 weight[((out * params.channels + c) * params.kernel + ky) * params.kernel + kx];
        }
      }
    }
  }
  result[i] = sum;
}
