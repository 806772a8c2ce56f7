// What a lane of product_row adds for 4-bit weights whose depth and group size are multiples of 32: four lanes load the
// same 32 nibbles of each of four columns, and lane j of them takes those at 4j and at 16 + 4j.
// Bindings: weight (words4), scales.
//! uses: q4_scales, q4_column

const CHUNK = 8u;

// The two parts of a lane.
fn halves(words: vec4<u32>, lane: u32) -> vec2<u32> {
  return select(words.xz, words.yw, lane >= 2u) >> vec2<u32>((lane & 1u) * 16u);
}

fn chunk_sum(place: Place, k: u32) -> X {
  let s = params.sections[place.section];
  let pitch = params.depth >> 5u;
  let i = (s.weight_first + place.column) * pitch + (k >> 5u);
  let lane = (k >> 3u) & 3u;
  let a = halves(weight[i], lane);
  let b = halves(weight[i + pitch], lane);
  let c = halves(weight[i + 2u * pitch], lane);
  let d = halves(weight[i + 3u * pitch], lane);
  let scale = s.scales_first + k / params.group_size * s.scales_pitch + place.column;
  let scales = scales_at(scale);
  var low = mat4x4<f32>(nibbles(a.x) * scales.x, nibbles(b.x) * scales.y, nibbles(c.x) * scales.z,
                        nibbles(d.x) * scales.w);
  var high = mat4x4<f32>(nibbles(a.y) * scales.x, nibbles(b.y) * scales.y, nibbles(c.y) * scales.z,
                         nibbles(d.y) * scales.w);
  if (OFFSETS == 1u) {
    let o = scales_at(scale + s.offsets);
    let offsets = mat4x4<f32>(vec4<f32>(o.x), vec4<f32>(o.y), vec4<f32>(o.z), vec4<f32>(o.w));
    low += offsets;
    high += offsets;
  }
  let first = (k & 0xffffffe0u) + 4u * lane;
  return transpose(low) * x_rows(place, first) + transpose(high) * x_rows(place, first + 16u);
}
