// What a division leaves. A quotient has 24 bits, so that each round takes 23 bits off what is left, and is exact.
//! uses: math

// C's fmod, with the sign of a.
fn rest_of(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  let y = abs(b);
  var r = abs(a);
  for (var round = 0; round < 14 && any(r >= y); round++) {
    // So that the quotient is finite.
    let far = y * 0x1p96;
    let step = select(y, far, r >= far);
    let next = remainder_of(r, trunc(r / step), step);
    r = select(r, select(next, next + step, next < vec4<f32>()), r >= y);
  }
  let lost = is_nan(a) | is_nan(b) | (abs(a) > vec4<f32>(FINITE)) | (b == vec4<f32>());
  let signed = bitcast<vec4<f32>>(bitcast<vec4<u32>>(r) | (bitcast<vec4<u32>>(a) & vec4<u32>(0x80000000u)));
  return select(signed, from_bits(0x7fc00000u), lost);
}

// Python's %, with the sign of b.
fn modulo(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  let r = rest_of(a, b);
  return select(r, r + b, !(r == vec4<f32>()) & ((r < vec4<f32>()) != (b < vec4<f32>())));
}
