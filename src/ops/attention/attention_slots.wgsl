// How the kernels of attention read rows of the query, keys and values, and masks.

//! module: load_aligned_rows
fn query4(at: u32, j: u32) -> vec4<f32> {
  return load4_query(at / 4u + j);
}
fn key4(at: u32, j: u32) -> vec4<f32> {
  return load4_key(at / 4u + j);
}
fn value4(at: u32, j: u32) -> vec4<f32> {
  return load4_value(at / 4u + j);
}

// A row's last vec4 is filled up with zeros: what lies past the row is another row.
//! module: load_any_rows
fn row4(j: u32, size: u32, x: f32, y: f32, z: f32, w: f32) -> vec4<f32> {
  return select(vec4<f32>(0.0), vec4<f32>(x, y, z, w), 4u * j + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(size));
}
fn query4(at: u32, j: u32) -> vec4<f32> {
  let i = at + 4u * j;
  return row4(j, params.size, load_query(i), load_query(i + 1u), load_query(i + 2u), load_query(i + 3u));
}
fn key4(at: u32, j: u32) -> vec4<f32> {
  let i = at + 4u * j;
  return row4(j, params.size, load_key(i), load_key(i + 1u), load_key(i + 2u), load_key(i + 3u));
}
fn value4(at: u32, j: u32) -> vec4<f32> {
  let i = at + 4u * j;
  return row4(j, params.value_size, load_value(i), load_value(i + 1u), load_value(i + 2u), load_value(i + 3u));
}

//! module: no_mask
fn bias(at: u32, key: u32) -> f32 {
  return 0.0;
}

//! module: with_mask
fn bias(at: u32, key: u32) -> f32 {
  return load_mask(at + min(key, params.keys - 1u) * params.mask_strides.w);
}
