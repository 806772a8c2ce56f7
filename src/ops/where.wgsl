// One of two operands, element by element: one thread makes four neighbouring elements.
// Bindings: condition, a, b, result. Line: T (the compute type).

struct Params {
  quads: u32,
  rank: u32,
  sizes: array<vec4<u32>, 2>,
  condition_strides: array<vec4<u32>, 2>,
  a_strides: array<vec4<u32>, 2>,
  b_strides: array<vec4<u32>, 2>,
}
@group(0) @binding(0) var<uniform> params: Params;

// 0: as the output, 1: one element for all, 2: element by element, 3: four neighbours, 4: one element for the four.
override CONDITION_READING: u32 = 0u;
override A_READING: u32 = 0u;
override B_READING: u32 = 0u;

// Where output element i lies in condition (x), a (y) and b (z).
fn offsets(i: u32) -> vec3<u32> {
  var rest = i;
  var at = vec3<u32>(0u);
  for (var d = params.rank; d > 0u; d--) {
    let k = d - 1u;
    let size = params.sizes[k >> 2u][k & 3u];
    let coordinate = rest % size;
    rest = rest / size;
    at += coordinate * vec3<u32>(params.condition_strides[k >> 2u][k & 3u], params.a_strides[k >> 2u][k & 3u],
                                 params.b_strides[k >> 2u][k & 3u]);
  }
  return at;
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.quads) {
    return;
  }
  var first = vec3<u32>(0u);
  if (CONDITION_READING > 2u || A_READING > 2u || B_READING > 2u) {
    first = offsets(4u * i);
  }
  var chosen: vec4<i32>;
  var a_values: vec4<T>;
  var b_values: vec4<T>;
  if (CONDITION_READING == 0u) {
    chosen = load4_condition(i);
  } else if (CONDITION_READING == 3u) {
    chosen = load4_condition(first.x >> 2u);
  } else if (CONDITION_READING != 2u) {
    chosen = vec4<i32>(load_condition(first.x));
  }
  if (A_READING == 0u) {
    a_values = vec4<T>(load4_a(i));
  } else if (A_READING == 3u) {
    a_values = vec4<T>(load4_a(first.y >> 2u));
  } else if (A_READING != 2u) {
    a_values = vec4<T>(T(load_a(first.y)));
  }
  if (B_READING == 0u) {
    b_values = vec4<T>(load4_b(i));
  } else if (B_READING == 3u) {
    b_values = vec4<T>(load4_b(first.z >> 2u));
  } else if (B_READING != 2u) {
    b_values = vec4<T>(T(load_b(first.z)));
  }
  if (CONDITION_READING == 2u || A_READING == 2u || B_READING == 2u) {
    for (var lane = 0u; lane < 4u; lane++) {
      let at = offsets(4u * i + lane);
      if (CONDITION_READING == 2u) {
        chosen[lane] = load_condition(at.x);
      }
      if (A_READING == 2u) {
        a_values[lane] = T(load_a(at.y));
      }
      if (B_READING == 2u) {
        b_values[lane] = T(load_b(at.z));
      }
    }
  }
  store4_result(i, select(b_values, a_values, chosen != vec4<i32>()));
}
