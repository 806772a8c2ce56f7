// Elementwise on two operands: one thread makes four neighbouring elements.
// Bindings: a, b, result. Lines: T (the compute type), apply().

struct Params {
  quads: u32,
  rank: u32,
  alpha: f32,
  alpha_int: i32,
  sizes: array<vec4<u32>, 2>,
  a_strides: array<vec4<u32>, 2>,
  b_strides: array<vec4<u32>, 2>,
}
@group(0) @binding(0) var<uniform> params: Params;

// 0: as the output, 1: one element for all, 2: element by element, 3: four neighbours, 4: one element for the four.
override A_READING: u32 = 0u;
override B_READING: u32 = 0u;

// Where output element i lies in a (x) and in b (y).
fn offsets(i: u32) -> vec2<u32> {
  var rest = i;
  var at = vec2<u32>(0u);
  for (var d = params.rank; d > 0u; d--) {
    let k = d - 1u;
    let size = params.sizes[k >> 2u][k & 3u];
    let coordinate = rest % size;
    rest = rest / size;
    at += coordinate * vec2<u32>(params.a_strides[k >> 2u][k & 3u], params.b_strides[k >> 2u][k & 3u]);
  }
  return at;
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.quads) {
    return;
  }
  var first = vec2<u32>(0u);
  if (A_READING > 2u || B_READING > 2u) {
    first = offsets(4u * i);
  }
  var a_values: vec4<T>;
  var b_values: vec4<T>;
  if (A_READING == 0u) {
    a_values = vec4<T>(load4_a(i));
  } else if (A_READING == 3u) {
    a_values = vec4<T>(load4_a(first.x >> 2u));
  } else if (A_READING != 2u) {
    a_values = vec4<T>(T(load_a(first.x)));
  }
  if (B_READING == 0u) {
    b_values = vec4<T>(load4_b(i));
  } else if (B_READING == 3u) {
    b_values = vec4<T>(load4_b(first.y >> 2u));
  } else if (B_READING != 2u) {
    b_values = vec4<T>(T(load_b(first.y)));
  }
  if (A_READING == 2u || B_READING == 2u) {
    for (var lane = 0u; lane < 4u; lane++) {
      let at = offsets(4u * i + lane);
      if (A_READING == 2u) {
        a_values[lane] = T(load_a(at.x));
      }
      if (B_READING == 2u) {
        b_values[lane] = T(load_b(at.y));
      }
    }
  }
  store4_result(i, apply(a_values, b_values));
}
