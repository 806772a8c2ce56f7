#include "plan/grid.hpp"

#include <algorithm>

#include "graph/size.hpp"

namespace nibble {

std::uint32_t clamp_workgroup(std::uint32_t preferred, const Limits& limits) {
  return std::max(1U, std::min({preferred, limits.max_workgroup_size_x, limits.max_workgroup_invocations}));
}

Result<Grid> grid_for(std::uint64_t threads, std::uint32_t preferred_workgroup, const Limits& limits) {
  Grid grid;
  grid.workgroup = clamp_workgroup(preferred_workgroup, limits);
  const std::uint64_t most = std::max(1U, limits.max_workgroups_per_dimension);
  const std::uint64_t groups = Size(threads).div_up(grid.workgroup).unchecked();
  if (groups <= most && Size(threads).fits_u32() && (Size(groups) * grid.workgroup).fits_u32()) [[likely]] {
    const auto columns = static_cast<std::uint32_t>(groups);
    grid.groups = {columns, columns == 0 ? 0U : 1U, columns == 0 ? 0U : 1U};
    return grid;
  }
  // Spread the groups evenly over x, y and z, with as few layers (z), and then rows (y), as the limit allows.
  const std::uint64_t layers = Size(groups).div_up(Size(most * most).unchecked()).unchecked();
  const std::uint64_t per_layer = layers == 0 ? 0 : Size(groups).div_up(layers).unchecked();
  const std::uint64_t rows = Size(per_layer).div_up(most).unchecked();
  const std::uint64_t columns = rows == 0 ? 0 : Size(per_layer).div_up(rows).unchecked();
  if (!Size(threads).fits_u32() || layers > most || !(Size(layers) * rows * columns * grid.workgroup).fits_u32()) {
    return fail(ErrorCode::unsupported, "a dispatch would need {} threads, more than 32 bits can count", threads);
  }
  grid.groups = {static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(rows),
                 static_cast<std::uint32_t>(layers)};
  return grid;
}

std::uint64_t most_small_threads(const Kernel& kernel) { return 4 * std::uint64_t{kernel.workgroup}; }

Result<std::uint32_t> workgroup_for(const Kernel& kernel, std::uint64_t threads, const DeviceProfile& profile) {
  const bool is_small =
      profile.kind == AdapterKind::cpu && !kernel.whole_groups && threads <= most_small_threads(kernel);
  const auto size = clamp_workgroup(is_small ? kernel.workgroup / 4 : kernel.workgroup, profile.limits);
  if (kernel.whole_groups && size != kernel.workgroup) {
    return fail(ErrorCode::unsupported, "needs workgroups of {} threads, but this device has at most {}",
                kernel.workgroup, size);
  }
  return size;
}

}  // namespace nibble
