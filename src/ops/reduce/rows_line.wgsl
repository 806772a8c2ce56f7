// An op along lines in one go, for CPU adapters and results that can be stored one by one: a thread folds a line of any
// length and any distance between its elements, then makes its elements anew. No barrier, one division.
// Bindings: source, result (of single elements), perhaps weight and bias.
//! proven: a thread stays in its line
//! uses: fold_params
//! slots: fold, apply

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let line = thread_index(id, groups);
  if (line >= params.lines) {
    return;
  }
  let width = params.width;
  let step = params.inner;
  let block = line / step;
  let first = block * step * width + line - block * step;
  var s = start();
  var at = first;
  var i = 0u;
  for (; i + 4u <= width; i += 4u) {
    let v = vec4<f32>(load_source(at), load_source(at + step), load_source(at + 2u * step),
                      load_source(at + 3u * step));
    s = merge(s, lift4(v, i, 1u));
    at += 4u * step;
  }
  for (; i < width; i++) {
    s = merge(s, lift(load_source(at), i));
    at += step;
  }
  let d = done(s);
  at = first;
  for (i = 0u; i < width; i++) {
    store_result(at, apply(load_source(at), d, i));
    at += step;
  }
}
