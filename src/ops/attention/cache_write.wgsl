// Writes new positions into one cache or two (keys and values): one thread makes four neighbouring elements of a cache.
// What fills its slot takes the number of the cache.
//! proven: the host has checked where it begins
//! slots: caches
//
// On a discrete GPU: each new element is read once and written once, in whole vec4s by neighbouring lanes; no barrier.

struct Params {
  quads: u32,       // threads per cache
  row: u32,         // elements per position
  rows: u32,        // new positions
  first: u32,       // the position they begin at
  cache_rows: u32,  // positions in the cache
}
@group(0) @binding(0) var<uniform> params: Params;

override ALIGNED: u32 = 0u;  // 1: positions are whole vec4s

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let thread = thread_index(id, groups);
  if (thread >= CACHES * params.quads) {
    return;
  }
  let cache = thread / params.quads;
  let i = thread - cache * params.quads;
  if (ALIGNED == 1u) {
    let row = params.row / 4u;
    let per_batch = params.rows * row;
    let batch = i / per_batch;
    put4(cache, (batch * params.cache_rows + params.first) * row + i - batch * per_batch, source4(cache, i));
    return;
  }
  // The quads from the first new element to the last; what lies between and beside the new ones stays.
  let quad = params.first * params.row / 4u + i;
  let per_batch = params.cache_rows * params.row;
  var values = held4(cache, quad);
  for (var lane = 0u; lane < 4u; lane++) {
    let element = 4u * quad + lane;
    let batch = element / per_batch;
    let within = element - batch * per_batch - params.first * params.row;
    if (within < params.rows * params.row) {
      values[lane] = source(cache, batch * params.rows * params.row + within);
    }
  }
  put4(cache, quad, values);
}

//! module: one_cache
const CACHES = 1u;
fn source(cache: u32, i: u32) -> f32 {
  return load_value(i);
}
fn source4(cache: u32, i: u32) -> vec4<f32> {
  return load4_value(i);
}
fn held4(cache: u32, i: u32) -> vec4<f32> {
  return load4_value_cache(i);
}
fn put4(cache: u32, i: u32, v: vec4<f32>) {
  store4_value_cache(i, v);
}

//! module: two_caches
const CACHES = 2u;
fn source(cache: u32, i: u32) -> f32 {
  if (cache == 0u) {
    return load_key(i);
  }
  return load_value(i);
}
fn source4(cache: u32, i: u32) -> vec4<f32> {
  if (cache == 0u) {
    return load4_key(i);
  }
  return load4_value(i);
}
fn held4(cache: u32, i: u32) -> vec4<f32> {
  if (cache == 0u) {
    return load4_key_cache(i);
  }
  return load4_value_cache(i);
}
fn put4(cache: u32, i: u32, v: vec4<f32>) {
  if (cache == 0u) {
    store4_key_cache(i, v);
  } else {
    store4_value_cache(i, v);
  }
}
