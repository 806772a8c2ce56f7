// Rows of a 4-bit table: value = (nibble - 8) * scale of its group. Each thread unpacks WORDS words of eight nibbles,
// all of one group.
// Bindings: weight (words or words4), scales, ids, result, perhaps fault.
//
// On a discrete GPU (WORDS = 1): 4 bytes read and 32 written per thread; neighbouring lanes read neighbouring words and
// write neighbouring vec4 pairs, so both streams are coalesced; the scale and the id are shared by group_size / 8 and
// width / 8 lanes and come from cache. No barrier, width / 8 threads per id. The kernel writes eight times what it
// reads, so it runs at the speed of plain stores.
//! uses: embedding_nibbles

fn unpack(word: u32, quad: u32, scale: f32) {
  store4_result(quad, four_of(word) * scale);
  store4_result(quad + 1u, four_of(word >> 16u) * scale);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  let per_row = params.width / (8u * WORDS);
  let position = i / per_row;
  if (position >= params.id_count) {
    return;
  }
  let part = i - position * per_row;
  let row = row_of(position);
  if (row >= params.table_rows) {
    return;
  }
  let scale = load_scales((row - params.scales_first) * params.groups + part * 8u * WORDS / params.group_size);
  let words = words_at((row - params.weight_first) * per_row + part);
  let quad = i * 2u * WORDS;
  unpack(words.x, quad, scale);
  if (WORDS == 4u) {
    unpack(words.y, quad + 2u, scale);
    unpack(words.z, quad + 4u, scale);
    unpack(words.w, quad + 6u, scale);
  }
}

// The same with one word: two neighbours pass each other theirs, and each makes a half of both. So what they store at
// once are the 32 bytes of a word, not 16 of every 32. They tell whose word it is: any two threads will do.
//! module: embedding_q4gsw_pairs
//! uses: embedding_nibbles
//! needs: subgroups

fn store_half(word: vec4<u32>, half: u32) {
  if (word.w == 1u) {
    store4_result(2u * word.z + half, four_of(word.x >> (16u * half)) * bitcast<f32>(word.y));
  }
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(subgroup_invocation_id) lane: u32) {
  let i = thread_index(id, groups);
  let per_row = params.width / 8u;
  let position = i / per_row;
  var own = vec4<u32>();  // word, scale, number, 1 if there is something to store
  if (position < params.id_count) {
    let row = row_of(position);
    if (row < params.table_rows) {
      let part = i - position * per_row;
      let scale = load_scales((row - params.scales_first) * params.groups + part * 8u / params.group_size);
      own = vec4<u32>(words_at((row - params.weight_first) * per_row + part).x, bitcast<u32>(scale), i, 1u);
    }
  }
  let other = subgroupShuffleXor(own, 1u);
  let half = lane & 1u;
  store_half(select(own, other, half == 1u), half);
  store_half(select(other, own, half == 1u), half);
}

//! module: embedding_nibbles
//! uses: embedding_rows
//! slots: words
override LINEAR: u32 = 1u;  // 1: the even element is the low nibble
override WORDS: u32 = 1u;
fn four_of(word: u32) -> vec4<f32> {
  var shifts = vec4<u32>(0u, 4u, 8u, 12u);
  if (LINEAR == 0u) {
    shifts = vec4<u32>(4u, 0u, 12u, 8u);
  }
  return vec4<f32>(vec4<i32>((vec4<u32>(word) >> shifts) & vec4<u32>(15u)) - vec4<i32>(8));
}

//! module: one_word
fn words_at(i: u32) -> vec4<u32> {
  return vec4<u32>(weight[i], 0u, 0u, 0u);
}

//! module: four_words
fn words_at(i: u32) -> vec4<u32> {
  return weight[i];
}
