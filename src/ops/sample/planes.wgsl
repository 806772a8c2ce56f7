// Four neighbouring elements of a batch of images: the image (a plane) and the place in it of each. Of two sizes the
// first is the height, the second the width.

struct Quad {
  plane: vec4<u32>,
  y: vec4<u32>,
  x: vec4<u32>,
}

// Plane, y and x of the next element.
fn following(at: vec3<u32>, size: vec2<u32>) -> vec3<u32> {
  let ends_row = at.z + 1u == size.y;
  let y = at.y + select(0u, 1u, ends_row);
  let ends_plane = y == size.x;
  return vec3<u32>(at.x + select(0u, 1u, ends_plane), select(y, 0u, ends_plane), select(at.z + 1u, 0u, ends_row));
}

// Divisions cost most here, on CPU adapters: only the first element is found by them.
fn quad_at(i: u32, size: vec2<u32>, planes: u32) -> Quad {
  let row = 4u * i / size.y;
  let plane = row / size.x;
  let a = vec3<u32>(plane, row - plane * size.x, 4u * i - row * size.y);
  let b = following(a, size);
  let c = following(b, size);
  let d = following(c, size);
  return Quad(min(vec4<u32>(a.x, b.x, c.x, d.x), vec4<u32>(planes - 1u)), vec4<u32>(a.y, b.y, c.y, d.y),
              vec4<u32>(a.z, b.z, c.z, d.z));
}

// By its bits: compilers may take comparisons to be between numbers.
//! module: nan_quads
fn nan_quads(v: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}
