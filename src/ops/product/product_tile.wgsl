// A matrix product of many rows for GPUs: a workgroup of 128 makes 32, 64 or 128 rows by 64 columns, each thread 4 by 4,
// 8 by 4 or 8 by 8 of them. x and the weights, 16 deep, pass through workgroup memory, where 4-bit weights are unpacked
// once for all rows. It has room for two steps: while the threads multiply one, their loads of the next are under way, and
// one barrier a step is enough.
//! proven: if its tiles fit
//! uses: product_params, product_x
//! slots: fill, numbers, room, write
//
// Loads are apart from who multiplies what: neighbouring lanes read neighbouring words, whole sectors of 32 bytes (fill).
// The order of quads in the tiles is mixed by exclusive or, so that neither phase meets a bank twice.
//
// On a discrete GPU (4-bit, K 2048, N 2048, 128 rows), by tile: the 2 MB of weights are read 4, 2 and 1 times, x (1 MB)
// 32 times, mostly from the second cache, as neighbouring workgroups share their columns. 128, 64 and 32 workgroups of
// 12, 16 and 24 KB. For four of k a thread multiplies 64, 128 and 256 times, after 8, 12 and 16 vec4 loads of workgroup
// memory: a third, a half and two thirds of the peak may be expected of a grid that fills the device, which large tiles do
// with many rows alone. Where even 32 rows by 64 columns make few workgroups and the depth is long, up to 256 share it
// (product_merge), each with 16 steps at least: their sums, 8 KB a workgroup, stay in the second cache.

// A thread's own rows and columns.
fn block_rows() -> u32 {
  return min(8u, TILE_ROWS / 8u);
}
fn block_columns() -> u32 {
  return TILE_ROWS * TILE_COLUMNS / WG / block_rows();
}

// Twice [row, quad of k] and [column, quad of k]. ROOM is TILE_ROWS, but a constant: naga 29 fails where the size of an
// array comes from overrides.
var<workgroup> x_tile: array<vec4<Number>, 8u * ROOM>;
var<workgroup> weight_tile: array<vec4<Number>, 512>;

// Of the units of a step, which are row * 4 + quad.
fn x_unit(place: Place, step: u32, unit: u32) -> vec4<f32> {
  let row = place.row + unit / 4u;
  let k = k_at(step, unit % 4u);
  var v = vec4<f32>();
  if (row < params.rows && k < params.depth) {
    v = x_quad(place.x_batch, row, k);
  }
  return v;
}
fn put_x(step: u32, unit: u32, v: vec4<f32>) {
  x_tile[(step & 1u) * 4u * TILE_ROWS + (unit ^ ((unit / (4u * block_rows())) & 3u))] = vec4<Number>(v);
}
fn put_weights(step: u32, column: u32, q: u32, v: vec4<f32>) {
  let i = ((step & 1u) * 4u + (column & 3u)) * TILE_COLUMNS + (column & 0xfffffffcu);
  weight_tile[i + (q ^ ((column >> 3u) & 3u))] = vec4<Number>(v);
}

fn x_block(i: u32) -> mat4x4<Number> {
  return mat4x4<Number>(x_tile[i], x_tile[i + 4u], x_tile[i + 8u], x_tile[i + 12u]);
}
fn weight_block(i: u32) -> mat4x4<Number> {
  return transpose(mat4x4<Number>(weight_tile[i], weight_tile[i + TILE_COLUMNS], weight_tile[i + 2u * TILE_COLUMNS],
                                  weight_tile[i + 3u * TILE_COLUMNS]));
}
fn add_block(sum: mat4x4<f32>, w: mat4x4<Number>, x: mat4x4<Number>) -> mat4x4<f32> {
  return mat4x4<f32>(add_row(sum[0], w, x[0]), add_row(sum[1], w, x[1]), add_row(sum[2], w, x[2]),
                     add_row(sum[3], w, x[3]));
}

// Rows 0 and 4, and those of the second four columns.
struct Sums {
  a: mat4x4<f32>,
  b: mat4x4<f32>,
  c: mat4x4<f32>,
  d: mat4x4<f32>,
}

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) id: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>) {
  var place = place_by_rows(group_index(id, groups));
  if (place.split >= params.splits) {
    return;
  }
  let across = TILE_COLUMNS / block_columns();
  let down = lane / across;
  let column = lane % across;  // four of them
  let part = (steps() + 4u * params.splits - 1u) / (4u * params.splits) * 4u;
  let first = place.split * part;
  let end = min(steps(), first + part);
  var gate = Sums();
  var sum = Sums();
  for (var half = 0u; half <= GATED; half++) {
    place.section += half;
    gate = sum;
    sum = Sums();
    var held = Held();
    for (var step = first; step <= end; step++) {
      var x0 = vec4<f32>();
      var x1 = vec4<f32>();
      var x2 = vec4<f32>();
      var x3 = vec4<f32>();
      if (step < end) {
        x0 = x_unit(place, step, lane);
        if (TILE_ROWS > 32u) {
          x1 = x_unit(place, step, lane + WG);
        }
        if (TILE_ROWS > 64u) {
          x2 = x_unit(place, step, lane + 2u * WG);
          x3 = x_unit(place, step, lane + 3u * WG);
        }
        held = hold(held, place, step, lane);
      }
      if (step > first) {
        let x_first = ((step & 1u) ^ 1u) * 4u * TILE_ROWS + down * 4u * block_rows();
        let weight_first = ((step & 1u) ^ 1u) * 4u * TILE_COLUMNS + column * 4u;
        for (var q = 0u; q < 4u; q++) {
          let at = x_first + (q ^ (down & 3u));
          let source = weight_first + (q ^ ((column >> 1u) & 3u));
          let x = x_block(at);
          let w = weight_block(source);
          sum.a = add_block(sum.a, w, x);
          if (block_rows() > 4u) {
            let below = x_block(at + 16u);
            sum.b = add_block(sum.b, w, below);
            if (block_columns() > 4u) {
              let beside = weight_block(source + 4u * across);
              sum.c = add_block(sum.c, beside, x);
              sum.d = add_block(sum.d, beside, below);
            }
          }
        }
      }
      if (step < end) {
        put_x(step, lane, x0);
        if (TILE_ROWS > 32u) {
          put_x(step, lane + WG, x1);
        }
        if (TILE_ROWS > 64u) {
          put_x(step, lane + 2u * WG, x2);
          put_x(step, lane + 3u * WG, x3);
        }
        put(held, step, lane);
      }
      workgroupBarrier();
    }
  }
  // Written once in the text: what writes may be long.
  for (var block = 0u; block < block_rows() * block_columns() / 16u; block++) {
    var gates = gate.a;
    var sums = sum.a;
    for (var row = 0u; row < 4u; row++) {
      write(place, place.row + down * block_rows() + (block & 1u) * 4u + row,
            place.column + 4u * (column + (block >> 1u) * across), gates[row], sums[row]);
    }
    gate.a = gate.b;
    gate.b = gate.c;
    gate.c = gate.d;
    sum.a = sum.b;
    sum.b = sum.c;
    sum.c = sum.d;
  }
}

// What a tile holds and multiplies. Sums come first, so that each multiplication is an addition too.
//! module: tile_floats
alias Number = f32;
fn add_row(sum: vec4<f32>, w: mat4x4<Number>, x: vec4<Number>) -> vec4<f32> {
  return sum + w[0] * x.x + w[1] * x.y + w[2] * x.z + w[3] * x.w;
}

// Half the workgroup memory, and twice the rate where a GPU has it. Four products are added in halves, the rest in floats:
// so errors do not grow with the depth. Each is one of 2048 parts of its number, as those of x and of the weights are.
// That holds from 2^-14 to 65504: larger sums of four are infinite, and smaller numbers and products lose digits.
//! module: tile_halves
//! needs: f16
alias Number = f16;
fn add_row(sum: vec4<f32>, w: mat4x4<Number>, x: vec4<Number>) -> vec4<f32> {
  return sum + vec4<f32>(w[0] * x.x + w[1] * x.y + w[2] * x.z + w[3] * x.w);
}

//! module: room_32
const ROOM = 32u;
//! module: room_64
const ROOM = 64u;
//! module: room_128
const ROOM = 128u;

// How weights come to a tile: a thread holds its part of a step until there is room for it.
// Here two quads of k, each of one column.
//! module: fill_quads
//! slots: weights
struct Held {
  a: vec4<f32>,
  b: vec4<f32>,
}
fn run_steps() -> u32 {
  return (params.run + 15u) / 16u;
}
fn steps() -> u32 {
  return params.runs * run_steps();
}
// Where a quad of a step is in a run; those behind the end are left out.
fn in_run(step: u32, q: u32) -> u32 {
  return step % run_steps() * 16u + 4u * q;
}
fn k_at(step: u32, q: u32) -> u32 {
  let k = in_run(step, q);
  return select(params.depth, step / run_steps() * params.run + k, k < params.run);
}
fn unit_at(unit: u32) -> vec2<u32> {
  return select(vec2<u32>(unit / 4u, unit % 4u), vec2<u32>(unit % TILE_COLUMNS, unit / TILE_COLUMNS), ALONG_COLUMNS);
}
fn weight_unit(place: Place, step: u32, unit: u32) -> vec4<f32> {
  let at = unit_at(unit);
  let column = place.column + at.x;
  let k = in_run(step, at.y);
  var v = vec4<f32>();
  if (column < params.sections[place.section].width && k < params.run) {
    v = quad_at(place.batch, place.section, column, run_shift(step / run_steps()), k);
  }
  return v;
}
fn hold(held: Held, place: Place, step: u32, lane: u32) -> Held {
  return Held(weight_unit(place, step, lane), weight_unit(place, step, lane + WG));
}
fn put(held: Held, step: u32, lane: u32) {
  let a = unit_at(lane);
  let b = unit_at(lane + WG);
  put_weights(step, a.x, a.y, held.a);
  put_weights(step, b.x, b.y, held.b);
}

// 4-bit weights whose depth and group size are multiples of 32. Two lanes share a column: in every fourth step each loads
// 32 of 64 nibbles, which are whole sectors, and gives a step one word of them. So a step has eight of k from each half.
//! module: fill_words
//! uses: q4_column
struct Held {
  words: vec4<u32>,
  scale: vec2<f32>,
}
fn steps() -> u32 {
  return (params.depth + 63u) / 64u * 4u;
}
fn k_at(step: u32, q: u32) -> u32 {
  return (step >> 2u) * 64u + (q >> 1u) * 32u + (step & 3u) * 8u + (q & 1u) * 4u;
}
fn hold(held: Held, place: Place, step: u32, lane: u32) -> Held {
  if ((step & 3u) != 0u) {
    return Held(held.words.yzwx, held.scale);
  }
  let s = params.sections[place.section];
  let column = place.column + (lane >> 1u);
  let k = step * 16u + (lane & 1u) * 32u;
  var next = Held();
  if (column < s.width && k < params.depth) {
    next = Held(weight[(s.weight_first + column) * (params.depth >> 5u) + (k >> 5u)],
                scale_at(place.section, column, k));
  }
  return next;
}
fn put(held: Held, step: u32, lane: u32) {
  let q = (lane & 1u) * 2u;
  put_weights(step, lane >> 1u, q, nibbles(held.words.x) * held.scale.x + vec4<f32>(held.scale.y));
  put_weights(step, lane >> 1u, q + 1u, nibbles(held.words.x >> 16u) * held.scale.x + vec4<f32>(held.scale.y));
}
