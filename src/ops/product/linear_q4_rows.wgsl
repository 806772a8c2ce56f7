// Half of a thread's rows in linear_q4: four of them.

struct Rows {
  a: Row,
  b: Row,
  c: Row,
  d: Row,
}

fn rows_at(place: Place, k: u32, lane: Lane) -> Rows {
  return Rows(row_at(place.batch, place.row, k, lane), row_at(place.batch, place.row + 1u, k, lane),
              row_at(place.batch, place.row + 2u, k, lane), row_at(place.batch, place.row + 3u, k, lane));
}

fn add_rows(sums: X, w: Columns, x: Rows) -> X {
  return X(add(sums[0], w, x.a), add(sums[1], w, x.b), add(sums[2], w, x.c), add(sums[3], w, x.d));
}
