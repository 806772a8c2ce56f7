// Elementwise ops that follow each other in a kernel; see chain.hpp. First what the steps may call.

// Every function of a float gives NaN for NaN; see unary.wgsl.
fn tail_nan(v: vec4<f32>, r: vec4<f32>) -> vec4<f32> {
  return select(r, v, (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u));
}

// As it would be read back if it had been stored as float16.
fn tail_half(v: vec4<f32>) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(pack_half(v.xy)), unpack2x16float(pack_half(v.zw)));
}

// In the modules below, words in capitals stand for what a chain has: NTH for the number of an operand or a step,
// SCALAR and FIRST for types of elements, EXPRESSION for an op's, STEPS for their calls, LAST for the last one's number.

// A step, of as many operands.
//! module: step_of_one
fn tailNTH(v: vec4<f32>, params: vec4<f32>) -> vec4<SCALAR> {
  return EXPRESSION;
}

//! module: step_of_two
fn tailNTH(a: vec4<f32>, b: vec4<f32>, params: vec4<f32>) -> vec4<SCALAR> {
  return EXPRESSION;
}

//! module: step_of_three
fn tailNTH(a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, params: vec4<f32>) -> vec4<SCALAR> {
  return EXPRESSION;
}

// All steps, of what the kernel hands over.
//! module: all_steps
fn tail(i: u32, x0: vec4<FIRST>) -> vec4<SCALAR> {
  STEPS
  return xLAST;
}

// What the kernel calls to store.
//! module: store_tail_1
fn store_result(i: u32, v: FIRST) {
  put_result(i, tail(i, vec4<FIRST>(v)).x);
}

//! module: store_tail_4
fn store4_result(i: u32, v: vec4<FIRST>) {
  put4_result(i, tail(i, v));
}

// What a step reads from memory: one element for all, an element that is stored alone, or four neighbours.
//! module: take_one
fn takeNTH(i: u32) -> vec4<f32> {
  return vec4<f32>(f32(load_withNTH(0u)));
}

//! module: take_element
fn takeNTH(i: u32) -> vec4<f32> {
  return vec4<f32>(f32(load_withNTH(i)));
}

//! module: take_four
fn takeNTH(i: u32) -> vec4<f32> {
  return vec4<f32>(load4_withNTH(i));
}
