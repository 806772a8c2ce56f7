// Scale and zero point of each line of a fold: one thread makes four of them.
// Bindings: states [rows, parts], scale, zero_point.
//! uses: qparams_params
//! slots: fold, states, qparams

fn extremes_of(row: u32) -> vec3<f32> {
  let first = min(row, params.rows - 1u) * params.parts;
  var s = state_at(first);
  for (var part = 1u; part < params.parts; part++) {
    s = merge(s, state_at(first + part));
  }
  return s.xyz;
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  if (quad < (params.rows + 3u) / 4u) {
    store_qparams(quad, extremes_of(4u * quad), extremes_of(4u * quad + 1u), extremes_of(4u * quad + 2u),
                  extremes_of(4u * quad + 3u));
  }
}
