// Storage buffers, and how their elements are loaded and stored: one at a time, or as many as a module's name says. In
// each module NAME, BINDING, ACCESS (read, read_write), SCALAR (f32, i32) and STORE (store, or put where a tail is what
// the kernel stores to) stand for a binding's own.

//! module: load_1
@group(0) @binding(BINDING) var<storage, ACCESS> NAME: array<SCALAR>;
fn load_NAME(i: u32) -> SCALAR {
  return NAME[i];
}

//! module: store_1
fn STORE_NAME(i: u32, v: SCALAR) {
  NAME[i] = v;
}

//! module: load_2
@group(0) @binding(BINDING) var<storage, ACCESS> NAME: array<vec2<SCALAR>>;
fn load_NAME(i: u32) -> SCALAR {
  return NAME[i >> 1u][i & 1u];
}
fn load2_NAME(i: u32) -> vec2<SCALAR> {
  return NAME[i];
}

//! module: store_2
fn STORE2_NAME(i: u32, v: vec2<SCALAR>) {
  NAME[i] = v;
}

//! module: load_4
@group(0) @binding(BINDING) var<storage, ACCESS> NAME: array<vec4<SCALAR>>;
fn load_NAME(i: u32) -> SCALAR {
  return NAME[i >> 2u][i & 3u];
}
fn load4_NAME(i: u32) -> vec4<SCALAR> {
  return NAME[i];
}

//! module: store_4
fn STORE4_NAME(i: u32, v: vec4<SCALAR>) {
  NAME[i] = v;
}

// float16 as such.
//! module: load_half_2
@group(0) @binding(BINDING) var<storage, ACCESS> NAME: array<vec2<f16>>;
fn load_NAME(i: u32) -> f32 {
  return f32(NAME[i >> 1u][i & 1u]);
}

//! module: load_half_4
@group(0) @binding(BINDING) var<storage, ACCESS> NAME: array<vec4<f16>>;
fn load_NAME(i: u32) -> f32 {
  return f32(NAME[i >> 2u][i & 3u]);
}
fn load4_NAME(i: u32) -> vec4<f32> {
  return vec4<f32>(NAME[i]);
}

// float16 as pairs in a word.
//! module: load_packed_2
@group(0) @binding(BINDING) var<storage, ACCESS> NAME: array<u32>;
fn load_NAME(i: u32) -> f32 {
  return unpack2x16float(NAME[i >> 1u])[i & 1u];
}

//! module: load_packed_4
@group(0) @binding(BINDING) var<storage, ACCESS> NAME: array<vec2<u32>>;
fn load_NAME(i: u32) -> f32 {
  return unpack2x16float(NAME[i >> 2u][(i >> 1u) & 1u])[i & 1u];
}
fn load4_NAME(i: u32) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(NAME[i].x), unpack2x16float(NAME[i].y));
}

//! module: store_packed_2
fn STORE2_NAME(i: u32, v: vec2<f32>) {
  NAME[i] = pack_half(v);
}

//! module: store_packed_4
fn STORE4_NAME(i: u32, v: vec4<f32>) {
  NAME[i] = vec2<u32>(pack_half(v.xy), pack_half(v.zw));
}

// Bytes (bool, uint8, int8), four to a word.
//! module: load_bytes
@group(0) @binding(BINDING) var<storage, ACCESS> NAME: array<u32>;
fn load4_NAME(i: u32) -> vec4<i32> {
  return vec4<i32>((vec4<u32>(NAME[i]) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));
}
fn load_NAME(i: u32) -> i32 {
  return load4_NAME(i >> 2u)[i & 3u];
}

// Shifting left and then right extends the sign.
//! module: load_signed_bytes
@group(0) @binding(BINDING) var<storage, ACCESS> NAME: array<u32>;
fn load4_NAME(i: u32) -> vec4<i32> {
  return vec4<i32>(vec4<u32>(NAME[i]) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u);
}
fn load_NAME(i: u32) -> i32 {
  return load4_NAME(i >> 2u)[i & 3u];
}

//! module: store_bytes
fn STORE4_NAME(i: u32, v: vec4<i32>) {
  let b = (vec4<u32>(v) & vec4<u32>(255u)) << vec4<u32>(0u, 8u, 16u, 24u);
  NAME[i] = b.x | b.y | b.z | b.w;
}

// As it is.
//! module: words
@group(0) @binding(BINDING) var<storage, ACCESS> NAME: array<u32>;

//! module: words4
@group(0) @binding(BINDING) var<storage, ACCESS> NAME: array<vec4<u32>>;

//! module: atomics
@group(0) @binding(BINDING) var<storage, ACCESS> NAME: array<atomic<u32>, 4>;
