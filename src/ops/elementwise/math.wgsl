// Functions that elementwise expressions call. Where WGSL has a function, this is more precise or defined for more
// values than what WGSL promises.

const FINITE = 0x1.fffffep127; // the largest number

fn is_nan(v: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}

// A constant expression may be neither NaN nor infinite; a variable may.
fn from_bits(bits: u32) -> vec4<f32> {
  var all = vec4<u32>(bits);
  return bitcast<vec4<f32>>(all);
}

fn minimum(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  return select(select(b, a, a < b), a, is_nan(a));
}

fn maximum(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  return select(select(b, a, a > b), a, is_nan(a));
}

// The exponent is never positive, so nothing overflows.
fn sigmoid(v: vec4<f32>) -> vec4<f32> {
  let e = exp(-abs(v));
  return select(e, vec4<f32>(1.0), v >= vec4<f32>()) / (1.0 + e);
}

// Small arguments by a series, where 1 - e would lose its digits.
fn hyperbolic_tangent(v: vec4<f32>) -> vec4<f32> {
  let e = exp(-2.0 * abs(v));
  let far = sign(v) * (1.0 - e) / (1.0 + e);
  let u = v * v;
  let near = v + v * u * (-0.333333333 + u * (0.133333333 + u * (-0.0539682540 + u * 0.0218694885)));
  return select(far, near, abs(v) < vec4<f32>(0.25));
}

// Half of it squared is exp(|v|) / 2, also where exp(|v|) is too large.
fn hyperbolic_sine(v: vec4<f32>) -> vec4<f32> {
  let e = exp(0.5 * abs(v));
  let u = v * v;
  let near = v + v * u * (0.166666667 + u * (0.00833333333 + u * 0.000198412698));
  return select(sign(v) * (0.5 * e * e - 0.5 / e / e), near, abs(v) < vec4<f32>(0.5));
}

fn hyperbolic_cosine(v: vec4<f32>) -> vec4<f32> {
  let e = exp(0.5 * abs(v));
  return 0.5 * e * e + 0.5 / e / e;
}

// P(X > x) for a normal X and 0 <= x <= 16: exp(-x² / 2) times a polynomial in 1 / (1 + 0.4 x), fitted for the least error
// of x * P: 1e-8 before rounding. WGSL has no erf.
fn normal_tail(x: vec4<f32>) -> vec4<f32> {
  let t = 1.0 / (1.0 + 0.4 * x);
  let p = 0.156599209 +
    t * (0.189489841 + t * (0.0109172352 + t * (0.34294346 + t * (-0.256963998 + t * 0.0570144318))));
  return exp(-0.5 * x * x) * t * p;
}

fn error_function(v: vec4<f32>) -> vec4<f32> {
  let u = min(v * v, vec4<f32>(1.0));
  let near = v * (1.12837917 + u * (-0.376126389 + u * (0.112837917 + u * (-0.0268661706 + u * 0.00522397762))));
  let far = sign(v) * (1.0 - 2.0 * normal_tail(min(1.41421356 * abs(v), vec4<f32>(16.0))));
  return select(far, near, abs(v) < vec4<f32>(0.25));
}

// v * P(X <= v), as max(v, 0) - |v| * P(X > |v|). As a product, it is NaN for minus infinity.
fn gelu(v: vec4<f32>) -> vec4<f32> {
  let x = min(abs(v), vec4<f32>(16.0));
  let found = max(v, vec4<f32>()) - x * normal_tail(x);
  return select(found, from_bits(0x7fc00000u), v < vec4<f32>(-FINITE));
}

fn gelu_by_tanh(v: vec4<f32>) -> vec4<f32> {
  let x = clamp(v, vec4<f32>(-16.0), vec4<f32>(16.0));
  return v * sigmoid(1.59576912 * (x + 0.044715 * x * x * x));
}

// The sine of v plus `quarters` quarter turns. The turns are taken off in three steps whose products are exact while
// |v| is below 50000; with growing |v| the precision falls, as it does in WGSL's own.
fn sine(v: vec4<f32>, quarters: i32) -> vec4<f32> {
  let k = round(v * 0.636619772);
  let r = clamp(((v - k * 1.5703125) - k * 4.83751297e-4) - k * 7.54978942e-8, vec4<f32>(-0.8), vec4<f32>(0.8));
  let u = r * r;
  let s = r + r * u * (-0.16666655 + u * (0.00833216 + u * -0.00019514));
  let c = 1.0 - 0.5 * u + u * u * (0.0416666463 + u * (-0.00138873371 + u * 2.44348434e-5));
  let turn = vec4<i32>(k) + vec4<i32>(quarters);
  let one = select(s, c, (turn & vec4<i32>(1)) != vec4<i32>());
  let turned = select(one, -one, (turn & vec4<i32>(2)) != vec4<i32>());
  return select(turned, from_bits(0x7fc00000u), abs(v) > vec4<f32>(FINITE));
}

// A device's own may take the size of a negative number, and be far from exact near 1.
fn logarithm(v: vec4<f32>) -> vec4<f32> {
  let tiny = v < vec4<f32>(0x1p-126);
  let bits = bitcast<vec4<i32>>(select(v, v * 0x1p24, tiny));
  // v = m * 2^e, with m from √½ to √2, whose logarithm is a series in (m - 1) / (m + 1).
  let e = (bits - 0x3f3504f3) >> vec4<u32>(23u);
  let m = bitcast<vec4<f32>>(bits - (e << vec4<u32>(23u)));
  let s = (m - 1.0) / (m + 1.0);
  let u = s * s;
  let of_m = s * (2.0 + u * (0.666666667 + u * (0.4 + u * (0.285714286 + u * 0.222222222))));
  let r = of_m + 0.693147181 * vec4<f32>(e - select(vec4<i32>(), vec4<i32>(24), tiny));
  let below = select(from_bits(0x7fc00000u), from_bits(0xff800000u), (bits & vec4<i32>(0x7fffffff)) == vec4<i32>());
  return select(select(r, below, bits <= vec4<i32>()), v, v > vec4<f32>(FINITE));
}

// a - q * b to more digits than a product has: both factors in two halves of 12 bits.
fn remainder_of(a: vec4<f32>, q: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  let high = vec4<u32>(0xfffff000u);
  let q1 = bitcast<vec4<f32>>(bitcast<vec4<u32>>(q) & high);
  let b1 = bitcast<vec4<f32>>(bitcast<vec4<u32>>(b) & high);
  let q2 = q - q1;
  let b2 = b - b1;
  return ((a - q1 * b1) - (q1 * b2 + q2 * b1)) - q2 * b2;
}

// A quotient rounded as IEEE has it, where a device's own may be off by some units and so miss a whole number.
fn quotient(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  let q = a / b;
  let better = q + remainder_of(a, q, b) / b;
  return select(q, better, abs(better) <= vec4<f32>(FINITE));
}

fn floor_quotient(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  let zero = vec4<f32>();
  let q = floor(quotient(a, b));
  let r = remainder_of(a, q, b);
  let below = select(q, q - 1.0, (r != zero) & ((r < zero) != (b < zero)) & (abs(q) < vec4<f32>(FINITE)));
  // By an infinite b, and of an infinite a, as torch has it.
  let by_endless = select(zero, vec4<f32>(-1.0), (a != zero) & ((a < zero) != (b < zero)));
  let finite = select(below, by_endless, (abs(b) > vec4<f32>(FINITE)) & !is_nan(a) & !is_nan(b));
  return select(finite, from_bits(0x7fc00000u), (abs(a) > vec4<f32>(FINITE)) & (b != zero));
}

fn floor_quotient_of_ints(a: vec4<i32>, b: vec4<i32>) -> vec4<i32> {
  let q = a / b;
  // Not a % b: where WGSL becomes GLSL, that is anything for negative numbers.
  return select(q, q - 1, (a - q * b != vec4<i32>()) & ((a < vec4<i32>()) != (b < vec4<i32>())));
}

// C's pow: of negative numbers where the exponent is whole, of zeros, infinities and NaN.
fn power(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
  let zero = vec4<f32>();
  let size = abs(x);
  let whole = floor(y) == y;
  let odd = whole & (abs(y) < vec4<f32>(16777216.0)) & (floor(0.5 * y) != 0.5 * y);
  let endless = (abs(y) > vec4<f32>(FINITE)) | (size > vec4<f32>(FINITE)) | (size == zero);
  let grows = (size > vec4<f32>(1.0)) == (y > zero);
  var r = select(pow(size, y), select(zero, from_bits(0x7f800000u), grows), endless);
  r = select(r, -r, odd & (bitcast<vec4<i32>>(x) < vec4<i32>()));
  r = select(r, from_bits(0x7fc00000u), is_nan(x) | is_nan(y) | ((x < zero) & !whole & (size <= vec4<f32>(FINITE))));
  return select(r, vec4<f32>(1.0), (y == zero) | (x == vec4<f32>(1.0)) | ((x == vec4<f32>(-1.0)) & !odd & whole));
}

// As torch has it, a negative exponent gives 0, but for 1 and -1.
fn power_of_ints(x: vec4<i32>, y: vec4<i32>) -> vec4<i32> {
  var r = vec4<i32>(1);
  var square = x;
  var rest = vec4<u32>(abs(y));
  while (any(rest != vec4<u32>())) {
    r = select(r, r * square, (rest & vec4<u32>(1u)) != vec4<u32>());
    square = square * square;
    rest = rest >> vec4<u32>(1u);
  }
  return select(r, vec4<i32>(), (y < vec4<i32>()) & (abs(x) != vec4<i32>(1)));
}
