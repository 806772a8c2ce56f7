// The parameters that all kernels have that fold lines. Of two items the first is about the kept dimensions, the second
// about the folded ones.

struct Params {
  lines: u32,
  width: u32,       // elements in a line
  rank: vec2<u32>,
  parts: u32,       // threads that share a line, and so its states
  neighbours: u32,  // 1: neighbouring threads take neighbouring lines, 0: neighbouring elements
  scalar: f32,      // the op's own: a divisor, an epsilon
  inner: u32,       // elements between neighbours of a line, where it has one dimension
  merged: u32,      // 1: a line's only state is that of its first part
  in_quads: u32,    // 1: a line is a run of whole vec4s
  sizes: array<array<vec4<u32>, 2>, 2>,
  strides: array<array<vec4<u32>, 2>, 2>,
  tail: array<vec4<f32>, 4>,
}
@group(0) @binding(0) var<uniform> params: Params;
