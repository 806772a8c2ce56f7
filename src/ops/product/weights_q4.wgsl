// 4-bit weights [columns, depth / 2] of any depth and any group size: (nibble - 8) * scale of group and column,
// plus their offset where there are any.
// With WEIGHT_QUADS, four neighbours from a multiple of four on lie in one word and one group.
// Bindings: weight (words), scales.
//! uses: q4_scales, q4_column

fn nibble_at(row: u32, k: u32) -> u32 {
  let byte = row * params.weight_pitch + (k >> 1u);
  return (weight[byte >> 2u] >> ((byte & 3u) * 8u + ((k & 1u) ^ SWAPPED) * 4u)) & 15u;
}

// Four neighbours of a row; those past the depth have no meaning.
fn nibble_quad(row: u32, k: u32) -> vec4<f32> {
  if (WEIGHT_QUADS == 0u) {
    return vec4<f32>(vec4<u32>(nibble_at(row, k), nibble_at(row, k + 1u), nibble_at(row, k + 2u),
                               nibble_at(row, k + 3u))) - vec4<f32>(8.0);
  }
  return nibbles(weight[(row * params.weight_pitch + (k >> 1u)) >> 2u] >> ((k & 4u) * 4u));
}

struct Group {
  scales: vec4<f32>,
  offsets: vec4<f32>,
}

// Of four columns at k; zero past the depth.
fn group_at(section: u32, column: u32, k: u32) -> Group {
  var group = Group();
  if (k < params.depth) {
    let s = params.sections[section];
    let i = s.scales_first + k / params.group_size * s.scales_pitch + column;
    group.scales = scales_at(i);
    if (OFFSETS == 1u) {
      group.offsets = scales_at(i + s.offsets);
    }
  }
  return group;
}

fn weigh(nibbles: vec4<f32>, group: Group) -> vec4<f32> {
  if (OFFSETS == 1u) {
    return nibbles * group.scales + group.offsets;
  }
  return nibbles * group.scales;
}

// Which four neighbouring columns.
struct Columns4 {
  section: u32,
  column: u32,
}
fn columns_at(batch: u32, section: u32, column: u32) -> Columns4 {
  return Columns4(section, column);
}
fn run_shift(run: u32) -> u32 {
  return 0u;
}

// 4 x 4 weights: a vector of four columns for each of k, k + 1, k + 2 and k + 3; zero past the depth.
fn weights_at(columns: Columns4, shift: u32, k: u32) -> mat4x4<f32> {
  let section = columns.section;
  let column = columns.column;
  let row = params.sections[section].weight_first + column;
  let w = transpose(mat4x4<f32>(nibble_quad(row, k), nibble_quad(row + 1u, k), nibble_quad(row + 2u, k),
                                nibble_quad(row + 3u, k)));
  let group = group_at(section, column, k);
  if (WEIGHT_QUADS == 1u) {
    return mat4x4<f32>(weigh(w[0], group), weigh(w[1], group), weigh(w[2], group), weigh(w[3], group));
  }
  return mat4x4<f32>(weigh(w[0], group), weigh(w[1], group_at(section, column, k + 1u)),
                     weigh(w[2], group_at(section, column, k + 2u)), weigh(w[3], group_at(section, column, k + 3u)));
}

// Of one column at k to k + 3.
const ALONG_COLUMNS = false;
fn quad_at(batch: u32, section: u32, column: u32, shift: u32, k: u32) -> vec4<f32> {
  let w = nibble_quad(params.sections[section].weight_first + column, k);
  let a = scale_at(section, column, k);
  if (WEIGHT_QUADS == 1u) {
    return w * a.x + vec4<f32>(a.y);
  }
  let all = transpose(mat4x2<f32>(a, scale_at(section, column, k + 1u), scale_at(section, column, k + 2u),
                                  scale_at(section, column, k + 3u)));
  return w * all[0] + all[1];
}

// How 4-bit weights are read.
//! module: q4_scales
fn scales_at(i: u32) -> vec4<f32> {
  if (SCALES_QUADS == 1u) {
    return load4_scales(i >> 2u);
  }
  return vec4<f32>(load_scales(i), load_scales(i + 1u), load_scales(i + 2u), load_scales(i + 3u));
}

//! module: q4_column
// The four lowest nibbles.
fn nibbles(word: u32) -> vec4<f32> {
  let shifts = select(vec4<u32>(0u, 4u, 8u, 12u), vec4<u32>(4u, 0u, 12u, 8u), SWAPPED == 1u);
  return vec4<f32>((vec4<u32>(word) >> shifts) & vec4<u32>(15u)) - vec4<f32>(8.0);
}

// Scale and offset of one column at k; zero past the depth.
fn scale_at(section: u32, column: u32, k: u32) -> vec2<f32> {
  var v = vec2<f32>();
  if (k < params.depth) {
    let s = params.sections[section];
    let i = s.scales_first + k / params.group_size * s.scales_pitch + column;
    v.x = load_scales(i);
    if (OFFSETS == 1u) {
      v.y = load_scales(i + s.offsets);
    }
  }
  return v;
}
