// What a sum of quantized operands comes to. params.numbers: scale and zero point of both, the result's 1 / scale and
// zero point.

fn add_bytes(a: vec4<f32>, b: vec4<f32>) -> vec4<i32> {
  let n = params.numbers[0];
  let m = params.numbers[1];
  let sum = (a - n.y) * n.x + params.x * ((b - n.w) * n.z);
  return vec4<i32>(clamp(round(sum * m.x) + m.y, vec4<f32>(-128.0), vec4<f32>(127.0)));
}
