// The x and y of each place of an image, times a stride: one thread makes two places.
// Bindings: result.

struct Params {
  quads: u32,
  width: u32,
  stride: f32,
  shift: f32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.quads) {
    let at = vec2<u32>(2u * i, 2u * i + 1u);
    let y = at / params.width;
    let x = at - y * params.width;
    store4_result(i, (vec4<f32>(vec4<u32>(x.x, y.x, x.y, y.y)) + params.shift) * params.stride);
  }
}
