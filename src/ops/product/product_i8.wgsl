// A product of bytes: x [rows, depth] times w [columns, depth], summed exactly in i32, then scaled. A thread makes 1 or
// 4 rows by 4 columns in registers, with no barrier, 16 deep at a time: 8 vec4 loads for 256 multiplications.
//! uses: product_i8_params

fn add(sums: vec4<i32>, w: Four, x: Sixteen) -> vec4<i32> {
  return sums + vec4<i32>(dot16(w.a, x), dot16(w.b, x), dot16(w.c, x), dot16(w.d, x));
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let tile = thread_index(id, groups);
  let row = tile / params.column_tiles * TILE_ROWS;
  if (row >= params.rows) {
    return;
  }
  let column = tile % params.column_tiles * 4u;
  var ones = vec4<i32>();
  var a = vec4<i32>();
  var b = vec4<i32>();
  var c = vec4<i32>();
  var d = vec4<i32>();
  for (var k = 0u; k < params.depth; k += 16u) {
    let w = columns_at(column, k);
    ones += sums_of(w);
    a = add(a, w, x_at(row, k));
    if (TILE_ROWS > 1u) {
      b = add(b, w, x_at(row + 1u, k));
      c = add(c, w, x_at(row + 2u, k));
      d = add(d, w, x_at(row + 3u, k));
    }
  }
  let zeros = params.zero * ones;
  finish(row, column, vec4<f32>(a - zeros));
  if (TILE_ROWS > 1u) {
    finish(row + 1u, column, vec4<f32>(b - zeros));
    finish(row + 2u, column, vec4<f32>(c - zeros));
    finish(row + 3u, column, vec4<f32>(d - zeros));
  }
}
