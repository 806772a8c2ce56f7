// A thread's rows in linear_q4: one row.

alias Rows = Row;

fn rows_at(place: Place, k: u32, lane: Lane) -> Rows {
  return row_at(place.batch, place.row, k, lane);
}

fn add_rows(sums: X, w: Columns, x: Rows) -> X {
  return add(sums, w, x);
}
