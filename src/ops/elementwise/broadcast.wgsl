// Operands a, b and c that are repeated to the shape of the output: which elements of them make four neighbouring ones of
// the output. An operand that is one element in every call is bound as such (A_ONE and so on).

struct Params {
  quads: u32,
  rank: u32,
  x: f32,
  i: i32,
  numbers: array<vec4<f32>, 2>,
  sizes: array<vec4<u32>, 2>,
  strides: array<array<vec4<u32>, 2>, 3>,  // of a, b and c
}
@group(0) @binding(0) var<uniform> params: Params;

// 0: all operands lie as the output does, 1: in runs of whole quads, 2: element by element.
override READING: u32 = 0u;
override A_ONE: u32 = 0u;
override B_ONE: u32 = 0u;
override C_ONE: u32 = 0u;

// Places of four neighbouring elements; in runs of quads only the first counts, and its last lane is the run's step.
struct Places {
  a: vec4<u32>,
  b: vec4<u32>,
  c: vec4<u32>,
}

fn places_of(element: u32) -> vec3<u32> {
  var rest = element;
  var at = vec3<u32>(0u);
  for (var d = params.rank; d > 0u; d--) {
    let k = d - 1u;
    let size = params.sizes[k >> 2u][k & 3u];
    let above = rest / size;
    at += (rest - above * size) * vec3<u32>(params.strides[0][k >> 2u][k & 3u], params.strides[1][k >> 2u][k & 3u],
                                            params.strides[2][k >> 2u][k & 3u]);
    rest = above;
  }
  return at;
}

fn places(quad: u32) -> Places {
  var p: Places;
  if (READING == 1u) {
    let at = places_of(4u * quad);
    let k = max(params.rank, 1u) - 1u;
    p.a = vec4<u32>(at.x, 0u, 0u, params.strides[0][k >> 2u][k & 3u]);
    p.b = vec4<u32>(at.y, 0u, 0u, params.strides[1][k >> 2u][k & 3u]);
    p.c = vec4<u32>(at.z, 0u, 0u, params.strides[2][k >> 2u][k & 3u]);
  }
  if (READING == 2u) {
    for (var lane = 0u; lane < 4u; lane++) {
      let at = places_of(4u * quad + lane);
      p.a[lane] = at.x;
      p.b[lane] = at.y;
      p.c[lane] = at.z;
    }
  }
  return p;
}

fn a_at(quad: u32, p: Places) -> vec4<T> {
  if (A_ONE == 1u) {
    return vec4<T>(T(load_a(0u)));
  }
  if (READING == 0u) {
    return vec4<T>(load4_a(quad));
  }
  if (READING == 1u) {
    if (p.a.w == 1u) {
      return vec4<T>(load4_a(p.a.x >> 2u));
    }
    return vec4<T>(T(load_a(p.a.x)));
  }
  return vec4<T>(T(load_a(p.a.x)), T(load_a(p.a.y)), T(load_a(p.a.z)), T(load_a(p.a.w)));
}

fn b_at(quad: u32, p: Places) -> vec4<T> {
  if (B_ONE == 1u) {
    return vec4<T>(T(load_b(0u)));
  }
  if (READING == 0u) {
    return vec4<T>(load4_b(quad));
  }
  if (READING == 1u) {
    if (p.b.w == 1u) {
      return vec4<T>(load4_b(p.b.x >> 2u));
    }
    return vec4<T>(T(load_b(p.b.x)));
  }
  return vec4<T>(T(load_b(p.b.x)), T(load_b(p.b.y)), T(load_b(p.b.z)), T(load_b(p.b.w)));
}
