// A product with 4-bit weights for CPU adapters: a thread makes 1 row by 16 columns, or 4 rows by 32 (WIDE), in
// registers, with no barrier. Depth and group size are multiples of 32, so a step takes a vec4 of words (32 nibbles of
// one group) from every column. On such an adapter each lane loads by itself, which costs more than to compute: x is
// loaded once for all columns and a weight once for all rows.
//
// A nibble is masked where it stands, not shifted down: x is scaled by 1, 1/16, 1/256 and 1/4096 instead, once for all
// columns, which is exact. The -8 of all nibbles together is -8 times the sum of x, and the scale of a group comes last.
// Bindings: x, weight (words4), scales, ... Lines: product_params, rows (X), finish(), put().

override WIDE: u32 = 0u;
override SCALES_ALIGNED: u32 = 0u;

// x at 32 neighbouring k.
struct Step {
  k0: X,
  k4: X,
  k8: X,
  k12: X,
  k16: X,
  k20: X,
  k24: X,
  k28: X,
}

fn quad(batch: u32, row: u32, k: u32) -> vec4<f32> {
  let v = x_quad(batch, row, k);
  return select(v, v.yxwz, SWAPPED == 1u) * vec4<f32>(1.0, 0.0625, 0.00390625, 0.000244140625);
}

// A vector of four columns for each of four nibbles, times 1, 16, 256 and 4096.
fn nibbles(words: vec4<u32>) -> mat4x4<f32> {
  let w = vec4<i32>(words);
  return mat4x4<f32>(vec4<f32>(w & vec4<i32>(0xf)), vec4<f32>(w & vec4<i32>(0xf0)), vec4<f32>(w & vec4<i32>(0xf00)),
                     vec4<f32>(w & vec4<i32>(0xf000)));
}

fn scales_at(i: u32) -> vec4<f32> {
  if (SCALES_ALIGNED == 1u) {
    return load4_scales(i >> 2u);
  }
  return vec4<f32>(load_scales(i), load_scales(i + 1u), load_scales(i + 2u), load_scales(i + 3u));
}

// Four columns' sums over 32 k, from the vec4 `i` of words of the first one on.
fn columns(i: u32, x: Step, eights: X, scales: u32) -> X {
  let pitch = params.depth >> 5u;
  let a = weight[i];
  let b = weight[i + pitch];
  let c = weight[i + 2u * pitch];
  let d = weight[i + 3u * pitch];
  let w0 = vec4<u32>(a.x, b.x, c.x, d.x);
  let w1 = vec4<u32>(a.y, b.y, c.y, d.y);
  let w2 = vec4<u32>(a.z, b.z, c.z, d.z);
  let w3 = vec4<u32>(a.w, b.w, c.w, d.w);
  let half = vec4<u32>(16u);
  let sum = nibbles(w0) * x.k0 + nibbles(w0 >> half) * x.k4 + nibbles(w1) * x.k8 + nibbles(w1 >> half) * x.k12 +
            nibbles(w2) * x.k16 + nibbles(w2 >> half) * x.k20 + nibbles(w3) * x.k24 + nibbles(w3 >> half) * x.k28;
  return scaled(sum - eights, scales_at(scales));
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  // The lanes of a vector share their rows of x, which stay in the nearest cache.
  var place = place_by_columns(thread_index(id, groups), ROWS, select(16u, 32u, WIDE == 1u));
  if (place.batch >= params.batches) {
    return;
  }
  let pitch = params.depth >> 5u;
  let group_steps = params.group_size >> 5u;
  // Eight of every nibble in the four places.
  let eight = mat4x4<f32>(vec4<f32>(8.0), vec4<f32>(128.0), vec4<f32>(2048.0), vec4<f32>(32768.0));
  var gates = array<X, 8>();
  for (var part = 0u; part <= GATED; part++) {
    place.section += part;
    let s = params.sections[place.section];
    let first = (s.weight_first + place.column) * pitch;
    var sum0 = X();
    var sum1 = X();
    var sum2 = X();
    var sum3 = X();
    var sum4 = X();
    var sum5 = X();
    var sum6 = X();
    var sum7 = X();
    for (var k = 0u; k < pitch; k++) {
      let x = Step(x_rows(place, 32u * k), x_rows(place, 32u * k + 4u), x_rows(place, 32u * k + 8u),
                   x_rows(place, 32u * k + 12u), x_rows(place, 32u * k + 16u), x_rows(place, 32u * k + 20u),
                   x_rows(place, 32u * k + 24u), x_rows(place, 32u * k + 28u));
      let eights = eight * (x.k0 + x.k4 + x.k8 + x.k12 + x.k16 + x.k20 + x.k24 + x.k28);
      let scale = s.scales_first + k / group_steps * s.scales_pitch + place.column;
      let i = first + k;
      sum0 += columns(i, x, eights, scale);
      sum1 += columns(i + 4u * pitch, x, eights, scale + 4u);
      sum2 += columns(i + 8u * pitch, x, eights, scale + 8u);
      sum3 += columns(i + 12u * pitch, x, eights, scale + 12u);
      if (WIDE == 1u) {
        sum4 += columns(i + 16u * pitch, x, eights, scale + 16u);
        sum5 += columns(i + 20u * pitch, x, eights, scale + 20u);
        sum6 += columns(i + 24u * pitch, x, eights, scale + 24u);
        sum7 += columns(i + 28u * pitch, x, eights, scale + 28u);
      }
    }
    var sums = array<X, 8>(sum0, sum1, sum2, sum3, sum4, sum5, sum6, sum7);
    if (part < GATED) {
      gates = sums;
    } else {
      for (var i = 0u; i < select(4u, 8u, WIDE == 1u) * ROWS; i++) {
        let block = i / ROWS;
        let row = i % ROWS;
        write(place, place.row + row, place.column + 4u * block, row_of(gates[block], row), row_of(sums[block], row));
      }
    }
  }
}
