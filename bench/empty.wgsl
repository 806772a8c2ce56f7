// As little as a dispatch can do.

@group(0) @binding(0) var<uniform> value: vec4<u32>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;

@compute @workgroup_size(1)
fn main() {
  result[0] = value.x;
}
