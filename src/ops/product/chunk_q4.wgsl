// What a lane of product_row adds for 4-bit weights whose depth and group size are multiples of 32: 32 nibbles of each
// of four columns, one vec4 of words and one scale per column.
// Bindings: weight (words4), scales.

const CHUNK = 32u;

fn nibbles(word: u32) -> vec4<f32> {
  return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u)) - vec4<f32>(8.0);
}

fn scales_at(i: u32) -> vec4<f32> {
  return vec4<f32>(load_scales(i), load_scales(i + 1u), load_scales(i + 2u), load_scales(i + 3u));
}

fn chunk_sum(place: Place, k: u32) -> vec4<f32> {
  let s = params.sections[place.section];
  let pitch = params.depth >> 5u;
  let i = (s.weight_first + place.column) * pitch + (k >> 5u);
  var words = array<vec4<u32>, 4>(weight[i], weight[i + pitch], weight[i + 2u * pitch], weight[i + 3u * pitch]);
  var sum = vec4<f32>();
  var x = vec4<f32>();
  for (var word = 0u; word < 4u; word++) {
    var low = x_quad(place.x_batch, place.row, k + 8u * word);
    var high = x_quad(place.x_batch, place.row, k + 8u * word + 4u);
    if (SWAPPED == 1u) {
      low = low.yxwz;
      high = high.yxwz;
    }
    x += low + high;
    for (var column = 0u; column < 4u; column++) {
      let w = words[column][word];
      sum[column] += dot(nibbles(w), low) + dot(nibbles(w >> 16u), high);
    }
  }
  let scale = s.scales_first + k / params.group_size * s.scales_pitch + place.column;
  sum *= scales_at(scale);
  if (OFFSETS == 1u) {
    sum += dot(x, vec4<f32>(1.0)) * scales_at(scale + s.offsets);
  }
  return sum;
}
