// First part of a fold: thread (line, part) folds every parts-th of the line's elements.
// Bindings: source, states [lines, parts].
//! proven: a thread stays in its line
//! uses: fold_params, fold_line
//! slots: fold, states

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.lines * params.parts) {
    return;
  }
  var line = i / params.parts;
  var part = i % params.parts;
  if (params.neighbours == 1u) {
    line = i % params.lines;
    part = i / params.lines;
  }
  set_state(line * params.parts + part, fold_line(line, part, params.parts));
}

// The same by a workgroup for each line, whose only state is complete then: neighbouring lanes read neighbouring
// elements of a line that is a run.
//! module: fold_group
//! proven: a thread stays in its line
//! uses: fold_params, fold_line
//! slots: fold, states, join

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, lane: Lane) {
  let line = group_index(id, groups);
  if (line >= params.lines) {
    return;
  }
  join(fold_line(line, lane.index, WG), lane, WG);
  if (lane.index == 0u) {
    set_state(line, joined(0u, WG));
  }
}

//! module: fold_line
const KEPT = 0u;
const FOLDED = 1u;

// Where the index-th combination of the kept or of the folded dimensions lies in the source.
fn offset(index: u32, side: u32) -> u32 {
  var rest = index;
  var sum = 0u;
  for (var d = params.rank[side]; d > 0u; d--) {
    let k = d - 1u;
    let size = params.sizes[side][k >> 2u][k & 3u];
    sum += (rest % size) * params.strides[side][k >> 2u][k & 3u];
    rest = rest / size;
  }
  return sum;
}

fn fold_line(line: u32, part: u32, parts: u32) -> S {
  let base = offset(line, KEPT);
  var s = start();
  if (params.in_quads == 1u) {
    let first = base / 4u;
    for (var quad = part; quad < params.width / 4u; quad += parts) {
      s = merge(s, lift4(vec4<T>(load4_source(first + quad)), 4u * quad, 1u));
    }
  } else if (params.rank[FOLDED] <= 1u) {
    // A single run: no division in the loop, and four elements to a merge.
    let step = parts * params.inner;
    var at = base + part * params.inner;
    var element = part;
    while (element < params.width && params.width - element > 3u * parts) {
      let v = vec4<T>(T(load_source(at)), T(load_source(at + step)), T(load_source(at + 2u * step)),
                      T(load_source(at + 3u * step)));
      s = merge(s, lift4(v, element, parts));
      at += 4u * step;
      element += 4u * parts;
    }
    while (element < params.width) {
      s = merge(s, lift(T(load_source(at)), element));
      at += step;
      element += parts;
    }
  } else {
    for (var element = part; element < params.width; element += parts) {
      s = merge(s, lift(T(load_source(base + offset(element, FOLDED))), element));
    }
  }
  return s;
}
