// Second half of an op along lines: one thread makes four neighbouring elements, of one line where lines are
// whole vec4s, else perhaps of four.
// Bindings: source, result, perhaps weight and bias, states [lines, parts].
//! proven: lines behind the last are the last
//! uses: fold_params
//! slots: fold, apply, states

// Where an element lies: x elements into its run of neighbouring lines, the first of which is z, and y into its line.
fn following(at: vec3<u32>) -> vec3<u32> {
  let ends_run = at.x + 1u == params.inner;
  let y = at.y + select(0u, 1u, ends_run);
  let ends_line = y == params.width;
  return vec3<u32>(select(at.x + 1u, 0u, ends_run), select(y, 0u, ends_line),
                   at.z + select(0u, params.inner, ends_line));
}

fn value(element: u32, at: vec3<u32>) -> f32 {
  let line = min(at.z + at.x, params.lines - 1u);
  return apply(load_source(element), done(state_at(line * params.parts)), at.y);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  let count = params.lines * params.width;
  if (quad >= (count + 3u) / 4u) {
    return;
  }
  if (params.in_quads == 1u) {
    let per_line = params.width / 4u;
    let line = quad / per_line;
    store4_result(quad, apply4(load4_source(quad), done(state_at(line * params.parts)), quad - line * per_line));
    return;
  }
  // Divisions cost most here, on CPU adapters: only the first element is found by them.
  let element = 4u * quad;
  var outside = element;
  if (params.inner > 1u) {
    outside = element / params.inner;
  }
  let block = outside / params.width;
  let a = vec3<u32>(element - outside * params.inner, outside - block * params.width, block * params.inner);
  let b = following(a);
  let c = following(b);
  let d = following(c);
  store4_result(quad, vec4<f32>(value(element, a), value(element + 1u, b), value(element + 2u, c),
                                value(element + 3u, d)));
}
