// What rotary reads and writes.

//! module: one_source
fn source(which: u32, i: u32) -> f32 {
  return load_x(i);
}
fn source4(which: u32, i: u32) -> vec4<f32> {
  return load4_x(i);
}

//! module: two_sources
fn source(which: u32, i: u32) -> f32 {
  if (which == 0u) {
    return load_x(i);
  }
  return load_y(i);
}
fn source4(which: u32, i: u32) -> vec4<f32> {
  if (which == 0u) {
    return load4_x(i);
  }
  return load4_y(i);
}

//! module: three_sources
fn source(which: u32, i: u32) -> f32 {
  if (which == 0u) {
    return load_x(i);
  }
  if (which == 1u) {
    return load_y(i);
  }
  return load_z(i);
}
fn source4(which: u32, i: u32) -> vec4<f32> {
  if (which == 0u) {
    return load4_x(i);
  }
  if (which == 1u) {
    return load4_y(i);
  }
  return load4_z(i);
}

//! module: one_target
fn held4(which: u32, i: u32) -> vec4<f32> {
  return load4_x_out(i);
}
fn put4(which: u32, i: u32, v: vec4<f32>) {
  store4_x_out(i, v);
}

//! module: two_targets
fn held4(which: u32, i: u32) -> vec4<f32> {
  if (which == 0u) {
    return load4_x_out(i);
  }
  return load4_y_out(i);
}
fn put4(which: u32, i: u32, v: vec4<f32>) {
  if (which == 0u) {
    store4_x_out(i, v);
  } else {
    store4_y_out(i, v);
  }
}

//! module: cache_targets
fn held4(which: u32, i: u32) -> vec4<f32> {
  if (which == 1u) {
    return load4_key_cache(i);
  }
  if (which == 2u) {
    return load4_value_cache(i);
  }
  return load4_x_out(i);
}
fn put4(which: u32, i: u32, v: vec4<f32>) {
  if (which == 0u) {
    store4_x_out(i, v);
  } else if (which == 1u) {
    store4_key_cache(i, v);
  } else {
    store4_value_cache(i, v);
  }
}

//! module: two_tables
fn cos_at(i: u32) -> f32 {
  return load_cosines(i);
}
fn sin_at(i: u32) -> f32 {
  return load_sines(i);
}

//! module: one_table
fn cos_at(i: u32) -> f32 {
  return load_frequencies(2u * i);
}
fn sin_at(i: u32) -> f32 {
  return load_frequencies(2u * i + 1u);
}
