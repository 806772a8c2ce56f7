// What the elements of a line are folded to. A module of folds has S (a state), start(), lift(x, i) and
// lift4(v, i, step), the states of one and of four elements, where i is the first one's number in its line and step
// that between two of them, and merge(a, b).

//! module: fold_sum
//! slots: elements
alias S = T;
fn start() -> S {
  return T(0);
}
fn lift(x: T, i: u32) -> S {
  return x;
}
fn lift4(v: vec4<T>, i: u32, step: u32) -> S {
  return v.x + v.y + v.z + v.w;
}
fn merge(a: S, b: S) -> S {
  return a + b;
}

// Whether something is not zero. NaN is something.
//! module: fold_any
//! slots: elements
alias S = i32;
fn start() -> S {
  return 0;
}
fn lift(x: T, i: u32) -> S {
  return i32(!(x == T(0)));
}
fn lift4(v: vec4<T>, i: u32, step: u32) -> S {
  return i32(!all(v == vec4<T>()));
}
fn merge(a: S, b: S) -> S {
  return a | b;
}

// An extreme and where it lies; of equal ones the first. The value lies in the state by its bits.
//! module: fold_extreme
//! slots: elements
alias S = vec2<i32>;
fn start() -> S {
  return S(WORST, 0x7fffffff);
}
fn lift(x: T, i: u32) -> S {
  return S(bitcast<i32>(x), i32(i));
}
fn lift4(v: vec4<T>, i: u32, step: u32) -> S {
  return merge(merge(lift(v.x, i), lift(v.y, i + step)), merge(lift(v.z, i + 2u * step), lift(v.w, i + 3u * step)));
}
fn merge(a: S, b: S) -> S {
  let x = bitcast<T>(a.x);
  let y = bitcast<T>(b.x);
  let takes_b = beats(y, x) || (!beats(x, y) && b.y < a.y);
  return select(a, b, takes_b);
}

// Orders of elements, for extremes. WORST, which beats nothing, is the bits of an infinity where elements are floats:
// WGSL cannot write that number.
//! module: max_of_ints
//! uses: ints
const WORST = -0x7fffffffi - 1i;
fn beats(a: i32, b: i32) -> bool {
  return a > b;
}

//! module: min_of_ints
//! uses: ints
const WORST = 0x7fffffffi;
fn beats(a: i32, b: i32) -> bool {
  return a < b;
}

// NaN beats every number, as in torch.
//! module: max_of_floats
//! uses: floats, known_nan
const WORST = -0x800000i;
fn beats(a: f32, b: f32) -> bool {
  return !is_nan_one(b) && (is_nan_one(a) || a > b);
}

//! module: min_of_floats
//! uses: floats, known_nan
const WORST = 0x7f800000i;
fn beats(a: f32, b: f32) -> bool {
  return !is_nan_one(b) && (is_nan_one(a) || a < b);
}

// By its bits: compilers may take comparisons to be between numbers.
//! module: known_nan
fn is_nan_one(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// Count, mean and sum of squared distances from the mean: exact also where the mean is far larger than the distances.
//! module: fold_moments
//! uses: floats
alias S = vec4<f32>;
fn start() -> S {
  return S();
}
fn lift(x: f32, i: u32) -> S {
  return S(1.0, x, 0.0, 0.0);
}
fn lift4(v: vec4<f32>, i: u32, step: u32) -> S {
  let mean = 0.25 * (v.x + v.y + v.z + v.w);
  let d = v - mean;
  return S(4.0, mean, dot(d, d), 0.0);
}
fn merge(a: S, b: S) -> S {
  let n = a.x + b.x;
  let share = b.x / max(n, 1.0);
  let d = b.y - a.y;
  return S(n, a.y + d * share, a.z + b.z + d * d * a.x * share, 0.0);
}
// What the mean is infinite or no number for has no distances from it, as in torch.
fn squares(s: S) -> f32 {
  let bits = bitcast<u32>(s.y);
  return select(s.z, bitcast<f32>(bits | 0x7fc00000u), (bits & 0x7f800000u) == 0x7f800000u);
}

//! module: fold_squares
//! uses: floats
alias S = f32;
fn start() -> S {
  return 0.0;
}
fn lift(x: f32, i: u32) -> S {
  return x * x;
}
fn lift4(v: vec4<f32>, i: u32, step: u32) -> S {
  return dot(v, v);
}
fn merge(a: S, b: S) -> S {
  return a + b;
}

// The largest element, and the sum of exp(element - largest). It begins with the lowest number instead of -infinity,
// so that a line, or a part of one, that is all -infinity has the sum 0: the quotient of such a line is NaN, as in
// torch, and the part adds nothing to its line. A NaN or +infinity makes the sum NaN by hand: exp() and log() of some
// devices give numbers for NaN and for 0.
//! module: fold_exponentials
//! uses: floats
alias S = vec2<f32>;
const LOWEST = -0x1.fffffep+127f;
fn start() -> S {
  return S(LOWEST, 0.0);
}
fn exponentials(v: vec4<f32>, largest: f32) -> vec4<f32> {
  let bits = bitcast<vec4<u32>>(v);
  let size = bits & vec4<u32>(0x7fffffffu);
  let is_lost = (size >= vec4<u32>(0x7f800000u)) & (bits != vec4<u32>(0xff800000u));
  return select(exp(v - largest), bitcast<vec4<f32>>(bits | vec4<u32>(0x7fc00000u)), is_lost);
}
fn lift(x: f32, i: u32) -> S {
  let largest = max(x, LOWEST);
  return S(largest, exponentials(vec4<f32>(x), largest).x);
}
fn lift4(v: vec4<f32>, i: u32, step: u32) -> S {
  let largest = max(max(max(v.x, v.y), max(v.z, v.w)), LOWEST);
  let e = exponentials(v, largest);
  return S(largest, e.x + e.y + e.z + e.w);
}
fn merge(a: S, b: S) -> S {
  let e = exp(-abs(a.x - b.x));
  return S(max(a.x, b.x), select(a.y * e + b.y, a.y + b.y * e, a.x >= b.x));
}

// States of one, two and four numbers in working memory.
//! module: states_1
fn state_at(i: u32) -> S {
  return load_states(i);
}
fn set_state(i: u32, s: S) {
  store_states(i, s);
}

//! module: states_2
fn state_at(i: u32) -> S {
  return load2_states(i);
}
fn set_state(i: u32, s: S) {
  store2_states(i, s);
}

//! module: states_4
fn state_at(i: u32) -> S {
  return load4_states(i);
}
fn set_state(i: u32, s: S) {
  store4_states(i, s);
}
