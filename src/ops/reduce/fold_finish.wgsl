// Last part of a fold to one element per line: one thread makes four of them.
// Bindings: states [lines, parts], result.
//! proven: lines behind the last are the last
//! uses: fold_params
//! slots: fold, states, finish

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  if (quad >= (params.lines + 3u) / 4u) {
    return;
  }
  let parts = select(params.parts, 1u, params.merged == 1u);
  var results = vec4<Result>();
  for (var lane = 0u; lane < 4u; lane++) {
    let first = min(4u * quad + lane, params.lines - 1u) * params.parts;
    var s = state_at(first);
    for (var part = 1u; part < parts; part++) {
      s = merge(s, state_at(first + part));
    }
    results[lane] = finish(s);
  }
  store4_result(quad, results);
}

// What a line's state comes to.
//! module: finish_sum
alias Result = T;
fn finish(s: S) -> Result {
  return s / T(params.scalar);
}

//! module: finish_any
alias Result = i32;
fn finish(s: S) -> Result {
  return s;
}

//! module: finish_extreme
alias Result = T;
fn finish(s: S) -> Result {
  return bitcast<T>(s.x);
}

//! module: finish_place
alias Result = i32;
fn finish(s: S) -> Result {
  return s.y;
}

//! module: finish_variance
alias Result = f32;
fn finish(s: S) -> Result {
  return squares(s) / max(s.x - params.scalar, 0.0);
}

//! module: finish_mean
alias Result = f32;
fn finish(s: S) -> Result {
  return s.y;
}

//! module: finish_rstd
alias Result = f32;
fn finish(s: S) -> Result {
  return 1.0 / sqrt(squares(s) / s.x + params.scalar);
}
