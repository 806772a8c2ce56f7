// The first rung of the 4-bit linear for many rows: a workgroup of 16 x 16 makes 64 x 64 outputs, each thread 4 x 4 of
// them; x and the unpacked weights, 16 deep, lie in workgroup memory.

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
@group(0) @binding(4) var<storage, read_write> result: array<vec4<f32>>;

var<workgroup> x_tile: array<vec4<f32>, 256>;       // [k, four rows]
var<workgroup> weight_tile: array<vec4<f32>, 256>;  // [k, four columns]

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) id: vec3<u32>) {
  let first_column = id.x * 64u;
  let first_row = id.y * 64u;
  let row = lane / 16u;     // four of them
  let column = lane % 16u;  // four of them
  var sum0 = vec4<f32>();
  var sum1 = vec4<f32>();
  var sum2 = vec4<f32>();
  var sum3 = vec4<f32>();
  for (var k = 0u; k < params.depth; k += 16u) {
    // Thread (row, column) brings k + row of four rows of x and of four columns.
    var values = vec4<f32>();
    var weights = vec4<f32>();
    let at = k + row;
    for (var i = 0u; i < 4u; i++) {
      let m = min(first_row + 4u * column + i, params.rows - 1u);
      values[i] = x[(m * params.depth + at) / 4u][at % 4u];
      let n = first_column + 4u * column + i;
      let word = weight[(n * params.depth + at) / 8u];
      weights[i] = (f32((word >> (at % 8u * 4u)) & 15u) - 8.0) * scales[at / params.group_size * params.columns + n];
    }
    x_tile[row * 16u + column] = values;
    weight_tile[row * 16u + column] = weights;
    workgroupBarrier();
    for (var i = 0u; i < 16u; i++) {
      let v = x_tile[i * 16u + row];
      let w = weight_tile[i * 16u + column];
      sum0 += v.x * w;
      sum1 += v.y * w;
      sum2 += v.z * w;
      sum3 += v.w * w;
    }
    workgroupBarrier();
  }
  let m = first_row + 4u * row;
  let quad = (m * params.columns + first_column) / 4u + column;
  let pitch = params.columns / 4u;
  if (m < params.rows) {
    result[quad] = sum0;
  }
  if (m + 1u < params.rows) {
    result[quad + pitch] = sum1;
  }
  if (m + 2u < params.rows) {
    result[quad + 2u * pitch] = sum2;
  }
  if (m + 3u < params.rows) {
    result[quad + 3u * pitch] = sum3;
  }
}
