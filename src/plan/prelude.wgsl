// What every kernel may call.

override WG: u32 = 64u;

// The thread's number in a grid that may be folded into two or three dimensions, and cut into pieces: a dispatch is one
// of them.
fn thread_index(id: vec3<u32>, groups: vec3<u32>) -> u32 {
  return id.x + WG * (params.first_group + groups.x * (id.y + groups.y * id.z));
}

// The workgroup's number in such a grid.
fn group_index(id: vec3<u32>, groups: vec3<u32>) -> u32 {
  return params.first_group + id.x + groups.x * (id.y + groups.y * id.z);
}

fn report_fault(node: u32, position: u32, value: i32) {
  report_fault_at(node, 0u, position, value);
}

//! module: enable_f16
enable f16;

//! module: enable_subgroups
enable subgroups;

// The first fault of a call stays.
//! module: report_faults
fn report_fault_at(node: u32, site: u32, position: u32, value: i32) {
  if (atomicCompareExchangeWeak(&fault[0], 0u, node + 1u).exchanged) {
    atomicStore(&fault[1], position);
    atomicStore(&fault[2], bitcast<u32>(value));
    atomicStore(&fault[3], site);
  }
}

//! module: report_no_faults
fn report_fault_at(node: u32, site: u32, position: u32, value: i32) {}

// WGSL leaves open what pack2x16float makes of numbers beyond float16, infinity and NaN among them; SwiftShader makes
// bits that spill into the neighbour. So these never get there.
//! module: pack_half
fn pack_half(v: vec2<f32>) -> u32 {
  let bits = bitcast<vec2<u32>>(v);
  let size = bits & vec2<u32>(0x7fffffffu);
  let over = size >= vec2<u32>(0x477ff000u);
  let special = select(vec2<u32>(0x7c00u), vec2<u32>(0x7e00u), size > vec2<u32>(0x7f800000u));
  let halves = select(vec2<u32>(), special | ((bits >> vec2<u32>(16u)) & vec2<u32>(0x8000u)), over);
  return pack2x16float(select(v, vec2<f32>(), over)) | halves.x | (halves.y << 16u);
}
