// A matrix product of few rows for GPUs: the lanes of a team share 1 or 4 rows and four columns. Neighbouring lanes read
// neighbouring parts of the same columns' weights and of x, so each load of a team is one run of memory, and the rows
// share what is read of the weights. At the end the team adds its sums: a subgroup by itself, a whole workgroup in a
// tree in workgroup memory.
//! proven: if its tiles fit
//! uses: product_params, product_x
//! slots: chunk, rows, team, write
//
// On a discrete GPU (4-bit, K 2048, N 8192, one row): 8 MB of weights and 2 MB of scales (groups of 32) are read once;
// x is 8 KB and stays in the nearest cache. 2048 teams, of 32 lanes in a subgroup, each lane with four 16-byte loads
// under way. Four neighbouring lanes load the same 16 bytes of a column and take 8 of its 32 nibbles: so their loads of
// x are whole runs as well, where a lane that took all 32 would skip 128 bytes from lane to lane. A subgroup ends
// without a barrier, a tree of 64 lanes with seven for each row. With fewer columns than there are subgroups to fill,
// 256 lanes share a column: that splits the depth, and needs no second dispatch to add up.
//
// A team of 64 has 1 KB of weights under way, and a discrete GPU (500 GB/s, 600 ns) needs some 300 KB: four columns a
// team are enough from 1200 columns on. With 256 columns or fewer and a depth of 2048 or more, workgroups share the depth
// too: up to 512 of them, each with 512 of it at least, which is one round of its lanes. Their sums are 16 bytes for each
// row and split beside 1 KB of weights. The second dispatch costs about 2 us.

override TEAM_TILES: u32 = 1u;  // of a workgroup; its teams take them in turns

fn quad(batch: u32, row: u32, k: u32) -> vec4<f32> {
  return x_quad(batch, row, k);
}

@compute @workgroup_size(WG)
fn main(team: Team, @builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let size = team_size(team);
  // All threads stay to the end: a team adds up together. As many rounds as one team would need, because WGSL does not
  // know that all teams have the same size; those that have nothing left to do are short.
  for (var round = 0u; round < TEAM_TILES; round++) {
    let tile = round * (WG / size) + team_index(team);
    var place = place_by_rows(group_index(id, groups) * TEAM_TILES + tile);
    let is_mine = tile < TEAM_TILES && place.split < params.splits;
    let part = (params.depth + 64u * params.splits - 1u) / (64u * params.splits) * 64u;
    let first = place.split * part;
    let end = select(0u, min(params.depth, first + part), is_mine);
    var gates = X();
    var sums = X();
    for (var half = 0u; half <= GATED; half++) {
      place.section += half;
      gates = sums;
      sums = X();
      for (var k = first + team.lane * CHUNK; k < end; k += size * CHUNK) {
        sums += chunk_sum(place, k);
      }
    }
    for (var row = 0u; row < ROWS; row++) {
      let sum = team_sum(team, row_of(sums, row));
      var gate = vec4<f32>();
      if (GATED == 1u) {
        gate = team_sum(team, row_of(gates, row));
      }
      if (is_mine && team.lane == 0u) {
        write(place, place.row + row, place.column, gate, sum);
      }
    }
  }
}

// Subgroups of any size, in the order of their threads: WGSL does not promise it, but engines number the threads of a
// workgroup with one dimension so, and WG is a whole number of subgroups. A workgroup smaller than one is one team.
//! module: team_of_subgroup
//! needs: subgroups
struct Team {
  @builtin(local_invocation_index) index: u32,
  @builtin(subgroup_invocation_id) lane: u32,
  @builtin(subgroup_size) size: u32,
}
fn team_size(team: Team) -> u32 {
  return min(team.size, WG);
}
fn team_index(team: Team) -> u32 {
  return team.index / team_size(team);
}
fn team_sum(team: Team, v: vec4<f32>) -> vec4<f32> {
  return subgroupAdd(v);
}

// A workgroup of up to 256 threads.
//! module: team_of_group
var<workgroup> team_sums: array<vec4<f32>, 256>;
struct Team {
  @builtin(local_invocation_index) lane: u32,
}
fn team_size(team: Team) -> u32 {
  return WG;
}
fn team_index(team: Team) -> u32 {
  return 0u;
}
fn team_sum(team: Team, v: vec4<f32>) -> vec4<f32> {
  team_sums[team.lane] = v;
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (team.lane < half) {
      team_sums[team.lane] += team_sums[team.lane + half];
    }
  }
  // Lane 0 has the sum; the others may start over when it has read it.
  let sum = team_sums[0];
  workgroupBarrier();
  return sum;
}
