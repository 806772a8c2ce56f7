// How a thread of linear_q4 comes to x: it loads a quarter, and four neighbours pass theirs to each other. WebGPU's
// subgroups have four threads or more.
//! needs: subgroups

struct Lane {
  @builtin(subgroup_invocation_id) in_subgroup: u32,
}

fn row_at(batch: u32, row: u32, k: u32, lane: Lane) -> Row {
  let first = k + 4u * (lane.in_subgroup & 3u);
  let low = quad(batch, row, first);
  let high = quad(batch, row, first + 16u);
  let part = eights(low + high);
  return Row(array<vec4<f32>, 8>(quadBroadcast(low, 0u), quadBroadcast(low, 1u), quadBroadcast(low, 2u),
                                 quadBroadcast(low, 3u), quadBroadcast(high, 0u), quadBroadcast(high, 1u),
                                 quadBroadcast(high, 2u), quadBroadcast(high, 3u)),
             quadBroadcast(part, 0u) + quadBroadcast(part, 1u) + quadBroadcast(part, 2u) + quadBroadcast(part, 3u));
}
