// Tensors side by side, seen as rows. Where all widths are whole pieces of some vec4s, a thread copies one (`vectors`
// is how many; then all counts are of pieces). Else (0) it makes four neighbouring output elements, from whichever
// inputs they come.
// A dispatch that has only some of the inputs writes their columns, `begin` to `end`, and leaves the others alone.
// Bindings: in0 to in6, result. Override: how many of the inputs are not stand-ins.
//! proven: columns are those of an input
//! slots: type

struct Params {
  threads: u32,
  count: u32,
  width: u32,  // of an output row
  begin: u32,
  end: u32,
  first_quad: u32,
  vectors: u32,
  ends: array<vec4<u32>, 2>,  // the column after each input's last
}
@group(0) @binding(0) var<uniform> params: Params;

override INPUTS: u32 = 1u;

fn end_of(input: u32) -> u32 {
  return params.ends[input >> 2u][input & 3u];
}

fn load(input: u32, i: u32) -> T {
  if (INPUTS > 6u && input == 6u) { return T(load_in6(i)); }
  if (INPUTS > 5u && input == 5u) { return T(load_in5(i)); }
  if (INPUTS > 4u && input == 4u) { return T(load_in4(i)); }
  if (INPUTS > 3u && input == 3u) { return T(load_in3(i)); }
  if (INPUTS > 2u && input == 2u) { return T(load_in2(i)); }
  if (INPUTS > 1u && input == 1u) { return T(load_in1(i)); }
  return T(load_in0(i));
}

fn load4(input: u32, i: u32) -> vec4<T> {
  if (INPUTS > 6u && input == 6u) { return vec4<T>(load4_in6(i)); }
  if (INPUTS > 5u && input == 5u) { return vec4<T>(load4_in5(i)); }
  if (INPUTS > 4u && input == 4u) { return vec4<T>(load4_in4(i)); }
  if (INPUTS > 3u && input == 3u) { return vec4<T>(load4_in3(i)); }
  if (INPUTS > 2u && input == 2u) { return vec4<T>(load4_in2(i)); }
  if (INPUTS > 1u && input == 1u) { return vec4<T>(load4_in1(i)); }
  return vec4<T>(load4_in0(i));
}

// The input that has a column, and where in it the column of that row lies.
fn source(row: u32, column: u32) -> vec2<u32> {
  var input = 0u;
  var begin = params.begin;
  for (; input + 1u < INPUTS && column >= end_of(input); input++) {
    begin = end_of(input);
  }
  return vec2<u32>(input, row * (end_of(input) - begin) + column - begin);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.threads) {
    return;
  }
  if (params.vectors > 0u) {
    let row = i / (params.end - params.begin);
    let column = i - row * (params.end - params.begin) + params.begin;
    let at = source(row, column);
    let to = (row * params.width + column) * params.vectors;
    for (var k = 0u; k < params.vectors; k++) {
      store4_result(to + k, load4(at.x, at.y * params.vectors + k));
    }
    return;
  }
  let quad = params.first_quad + i;
  var row = 4u * quad / params.width;
  var column = 4u * quad - row * params.width;
  // What other dispatches wrote; the padding after the last element has no meaning.
  var values = load4_result(quad);
  var any = false;
  for (var lane = 0u; lane < 4u; lane++) {
    if (column >= params.begin && column < params.end && 4u * quad + lane < params.count) {
      let at = source(row, column);
      values[lane] = load(at.x, at.y);
      any = true;
    }
    column++;
    if (column == params.width) {
      column = 0u;
      row++;
    }
  }
  if (any) {
    store4_result(quad, values);
  }
}
