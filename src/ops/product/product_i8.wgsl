// A product of bytes: x [rows, depth] times w [columns, depth], summed exactly in i32, then scaled. A thread makes 1 or
// 4 rows by 4 columns in registers, with no barrier, 16 deep at a time: 8 vec4 loads for 256 multiplications.
//! uses: product_i8_params

fn add(sums: vec4<i32>, w: Four, x: Sixteen) -> vec4<i32> {
  return sums + vec4<i32>(dot16(w.a, x), dot16(w.b, x), dot16(w.c, x), dot16(w.d, x));
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let tile = thread_index(id, groups);
  if (tile >= params.tiles) {
    return;
  }
  let place = place_of(tile);
  let rows = rows_at(place);
  var ones = vec4<i32>();
  var a = vec4<i32>();
  var b = vec4<i32>();
  var c = vec4<i32>();
  var d = vec4<i32>();
  for (var run = 0u; run < params.runs; run++) {
    let shift = shift_of(run);
    for (var k = 0u; k < params.depth; k += 16u) {
      let w = columns_at(place.first + place.column, run * params.depth + k, params.depth - k);
      let i = rows + (shift + k);
      ones += sums_of(w);
      a = add(a, w, sixteen(x_bytes(i.x)));
      if (TILE_ROWS > 1u) {
        b = add(b, w, sixteen(x_bytes(i.y)));
        c = add(c, w, sixteen(x_bytes(i.z)));
        d = add(d, w, sixteen(x_bytes(i.w)));
      }
    }
  }
  let zeros = params.zero * ones;
  finish_tile(place, mat4x4<f32>(vec4<f32>(a - zeros), vec4<f32>(b - zeros), vec4<f32>(c - zeros),
                                 vec4<f32>(d - zeros)));
}
