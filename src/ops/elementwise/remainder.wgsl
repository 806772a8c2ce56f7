// What a division leaves, exactly: each round takes a quotient of 16 bits, whose product is subtracted in parts that
// lose nothing.
//! uses: math

fn less(a: vec4<f32>, q: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  let high = vec4<u32>(0xfffff000u);
  let q1 = bitcast<vec4<f32>>(bitcast<vec4<u32>>(q) & high);
  let b1 = bitcast<vec4<f32>>(bitcast<vec4<u32>>(b) & high);
  return (((a - q1 * b1) - q1 * (b - b1)) - (q - q1) * b1) - (q - q1) * (b - b1);
}

// C's fmod, with the sign of a.
fn rest_of(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  // So that no product is infinite, and no quotient.
  let scale = select(vec4<f32>(1.0), vec4<f32>(0.25), (abs(a) > vec4<f32>(0x1p100)) & (abs(b) > vec4<f32>(0x1p-90)));
  let y = scale * abs(b);
  var r = scale * abs(a);
  for (var i = 0; i < 24 && any(abs(r) >= y); i++) {
    let far = y * 0x1p112;
    let step = select(y, far, abs(r) >= far);
    let q = bitcast<vec4<f32>>((bitcast<vec4<u32>>(r / step) + 0x80u) & vec4<u32>(0xffffff00u));
    r = select(r, less(r, round(q), step), abs(r) >= y);
  }
  r = select(r, r + y, r < vec4<f32>()) / scale;
  let lost = is_nan(a) | is_nan(b) | (abs(a) > vec4<f32>(FINITE)) | (b == vec4<f32>());
  return select(select(r, -r, a < vec4<f32>()), from_bits(0x7fc00000u), lost);
}

// Python's %, with the sign of b.
fn modulo(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  let r = rest_of(a, b);
  return select(r, r + b, !(r == vec4<f32>()) & ((r < vec4<f32>()) != (b < vec4<f32>())));
}
