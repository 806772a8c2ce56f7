// Rows of a table that ids name. A table larger than a binding lies in shards: a dispatch has the rows of one.

struct Params {
  id_count: u32,
  width: u32,
  table_rows: u32,
  row_begin: u32,  // of this dispatch
  row_end: u32,
  node: u32,
  weight_first: u32,  // the row that each buffer begins with
  scales_first: u32,
  zeros_first: u32,
  groups: u32,        // scales in a row
  group_size: u32,    // elements that share a scale
}
@group(0) @binding(0) var<uniform> params: Params;

// The row for an id, or table_rows if this dispatch has nothing to write for it.
fn row_of(position: u32) -> u32 {
  let token = load_ids(position);
  let row = u32(token);
  if (row >= params.table_rows) {
    report_fault(params.node, position, token);
    return params.table_rows;
  }
  if (row < params.row_begin || row >= params.row_end) {
    return params.table_rows;
  }
  return row;
}
