// How a thread of linear_q4 comes to x: it loads all of it.

struct Lane {
  @builtin(global_invocation_id) id: vec3<u32>,
}

fn row_at(batch: u32, row: u32, k: u32, lane: Lane) -> Row {
  let x = array<vec4<f32>, 8>(quad(batch, row, k), quad(batch, row, k + 4u), quad(batch, row, k + 8u),
                              quad(batch, row, k + 12u), quad(batch, row, k + 16u), quad(batch, row, k + 20u),
                              quad(batch, row, k + 24u), quad(batch, row, k + 28u));
  return Row(x, eights(x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7]));
}
