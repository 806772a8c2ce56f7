// The parameters that all kernels have that fold lines: FoldParams in fold.hpp tells what they mean.

struct Params {
  lines: u32,
  width: u32,
  parts: u32,
  kept_rank: u32,
  folded_rank: u32,
  neighbours: u32,
  scalar: f32,
  inner: u32,
  merged: u32,
  in_quads: u32,
  pad: vec2<u32>,
  sizes: array<vec4<u32>, 4>,    // of the kept dimensions, then from FOLDED on of the folded ones
  strides: array<vec4<u32>, 4>,
}
@group(0) @binding(0) var<uniform> params: Params;
