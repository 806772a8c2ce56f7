// Where element i lies: the sum of what a kernel's offset() gives for its coordinate along each dimension. params.sizes
// are outermost first, and at least one.

fn place(i: u32) -> Place {
  var rest = i;
  var at = Place();
  for (var k = params.rank - 1u; k > 0u; k--) {
    let size = params.sizes[k >> 2u][k & 3u];
    let above = rest / size;
    at += offset(k, rest - above * size);
    rest = above;
  }
  return at + offset(0u, rest);
}

//! module: one_stride
//! uses: coordinates
alias Place = u32;
fn offset(k: u32, coordinate: u32) -> Place {
  return coordinate * params.strides[k >> 2u][k & 3u];
}

//! module: two_strides
//! uses: coordinates
alias Place = vec2<u32>;
fn offset(k: u32, coordinate: u32) -> Place {
  return coordinate * vec2<u32>(params.strides[k >> 2u][k & 3u], params.other_strides[k >> 2u][k & 3u]);
}

// How an output walks through a source. Distances are modulo 2^32, so they may be negative.
//! module: walk
struct Params {
  threads: u32,
  count: u32,             // elements of the output
  first: u32,             // the source's, with which the output begins
  rank: u32,
  vectors: u32,           // of a piece that a thread copies, see below; 0: it makes four elements
  rows: u32,              // that an index may name
  row_stride: u32,        // between two of them, or between the rows of a block
  other_row_stride: u32,  // between those of the output
  node: u32,
  site: u32,
  is_first: u32,
  sizes: array<vec4<u32>, 4>,
  strides: array<vec4<u32>, 4>,        // in the source
  other_strides: array<vec4<u32>, 4>,  // among the indices, or in the output
}
@group(0) @binding(0) var<uniform> params: Params;

// Where all runs are whole vec4s, the innermost size counts pieces of `vectors` of them, and places are those of vec4s.
//! module: pieces
fn copy_piece(i: u32) {
  let at = source_at(i);
  for (var k = 0u; k < params.vectors; k++) {
    store4_result(i * params.vectors + k, load4_source(at + k));
  }
}
