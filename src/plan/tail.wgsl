// What the steps of a chain may call.

// Every function of a float gives NaN for NaN; see unary.wgsl.
fn tail_nan(v: vec4<f32>, r: vec4<f32>) -> vec4<f32> {
  return select(r, v, (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u));
}

// As it would be read back if it had been stored as float16.
fn tail_half(v: vec4<f32>) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(pack_half(v.xy)), unpack2x16float(pack_half(v.zw)));
}
