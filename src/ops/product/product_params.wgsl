// What the kernels of matrix products share, put in front of each: parameters, where a thread works, reading x.
// The columns of the results may come in sections, each with its own rows of the weight and its own scales, and its own
// result or its own range of columns in one.

struct Section {
  width: u32,         // columns
  weight_first: u32,  // its first row in the weight's buffer
  scales_first: u32,  // its first scale
  scales_pitch: u32,  // from the scales of a group to those of the next
  result_first: u32,  // its first column in the result
  result_width: u32,  // columns of the result
  tiles_end: u32,     // column tiles up to the end of this section
  offsets: u32,       // from the scale of a group to its offset
}
struct Params {
  rows: u32,
  depth: u32,
  batches: u32,
  row_tiles: u32,
  splits: u32,        // so many workgroups share the depth of a tile
  weight_pitch: u32,  // from a row of the weight to the next: elements, or bytes of nibbles
  group_size: u32,
  weight_batch: u32,  // from a batch of the weight to the next
  alpha: f32,
  beta: f32,
  addend_row: u32,  // strides of what is added
  addend_column: u32,
  x_batches: u32,     // x has so many; the next batch of the weight takes the first of them again
  runs: u32,          // the depth is so many runs,
  run: u32,           // each of so many
  pixel_width: u32,   // see weights_pixels
  pixel_row: u32,
  pixel_column: u32,
  tap_width: u32,
  tap_row: u32,
  tap_column: u32,
  low: f32,           // see activation_clamp
  high: f32,
  sections: array<Section, 3>,
  tail: array<vec4<f32>, 4>,
}
@group(0) @binding(0) var<uniform> params: Params;

// What one thread, or one workgroup, makes at a time; the table of variants says it.
override TILE_ROWS: u32 = 1u;
override TILE_COLUMNS: u32 = 4u;
override X_ALIGNED: u32 = 0u;     // 1: rows of x begin at a multiple of four elements
override WEIGHT_QUADS: u32 = 0u;  // 1: four neighbouring weights can be loaded at once
override SWAPPED: u32 = 0u;       // 1: of two nibbles in a byte, the high one comes first
override OFFSETS: u32 = 0u;       // 1: groups of 4-bit weights have offsets
override SCALES_QUADS: u32 = 0u;  // 1: scales of four neighbouring columns can be loaded at once
override GATED: u32 = 0u;         // 1: the result is silu(section 0) * section 1

struct Place {
  batch: u32,
  section: u32,
  row: u32,
  column: u32,  // in the section
  x_batch: u32,
  split: u32,
}

fn column_tiles() -> u32 {
  return params.sections[2].tiles_end;
}

fn place_at(batch: u32, row: u32, column_tile: u32) -> Place {
  var section = 0u;
  var before = 0u;
  if (GATED == 0u) {
    for (var s = 0u; s < 2u; s++) {
      if (column_tile >= params.sections[s].tiles_end) {
        section = s + 1u;
        before = params.sections[s].tiles_end;
      }
    }
  }
  return Place(batch, section, row, (column_tile - before) * TILE_COLUMNS, batch % params.x_batches, 0u);
}

// Neighbouring tiles share their rows.
fn place_by_columns(tile: u32) -> Place {
  let rest = tile / column_tiles();
  return place_at(rest / params.row_tiles, rest % params.row_tiles * TILE_ROWS, tile % column_tiles());
}

// Neighbouring tiles share their columns. Behind all tiles come those of the next split, up to params.splits.
fn place_by_rows(tile: u32) -> Place {
  let rest = tile / params.row_tiles;
  let batch = rest / column_tiles();
  var place = place_at(batch % params.batches, tile % params.row_tiles * TILE_ROWS, rest % column_tiles());
  place.split = batch / params.batches;
  return place;
}

// Binding: x [batches, rows, depth].
//! module: product_x
// Four neighbours of a row of x; zero past its end.
fn x_quad(batch: u32, row: u32, k: u32) -> vec4<f32> {
  let i = (batch * params.rows + row) * params.depth + k;
  var v = vec4<f32>();
  if (X_ALIGNED == 1u) {
    v = load4_x(i >> 2u);
  } else {
    v.x = load_x(i);
    if (k + 1u < params.depth) {
      v.y = load_x(i + 1u);
    }
    if (k + 2u < params.depth) {
      v.z = load_x(i + 2u);
    }
    if (k + 3u < params.depth) {
      v.w = load_x(i + 3u);
    }
  }
  return v;
}
