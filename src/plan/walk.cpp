#include "plan/walk.hpp"

#include <algorithm>
#include <utility>

namespace nibble {

Walk::Walk(const Shape& source, std::size_t rank) {
  for (std::size_t i = source.rank(); i < rank; ++i) add({});
  for (std::size_t i = 0; i < source.rank(); ++i) {
    add({source[i], wrapping_product(source.dims().subspan(i + 1))});
  }
}

void Walk::cut(std::size_t dim, std::int64_t start, std::int64_t length, std::int64_t step) {
  first += wrapping_product(start, dims[dim].stride);
  dims[dim] = {length, wrapping_product(dims[dim].stride, step)};
  shape[dim] = length;
}

void Walk::merge() {
  const auto all = std::exchange(dims, {});
  for (const auto& [size, stride, other_stride] : all) {
    if (size == 1) continue;
    auto* last = dims.empty() ? nullptr : &dims[dims.size() - 1];
    if (last != nullptr && last->stride == wrapping_product(size, stride) &&
        last->other_stride == wrapping_product(size, other_stride)) {
      *last = {wrapping_product(last->size, size), stride, other_stride};
    } else {
      dims.push_back({size, stride, other_stride});
    }
  }
}

std::optional<std::size_t> Walk::source_run() const {
  if (dims.size() < 2 || dims[dims.size() - 1].size % 4 != 0 || first % 4 != 0) return std::nullopt;
  std::optional<std::size_t> run;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].stride == 1 && i + 1 < dims.size() && dims[i].size % 4 == 0 && !run) {
      run = i;
    } else if (dims[i].stride % 4 != 0) {
      return std::nullopt;
    }
  }
  return run;
}

bool Walk::is_whole_vectors() const {
  if (dims.empty() || first % 4 != 0) return false;
  const auto& [size, stride, other_stride] = dims[dims.size() - 1];
  return stride == 1 && other_stride == 0 && size % 4 == 0 &&
         std::ranges::all_of(dims.all().first(dims.size() - 1), [](const Dim& dim) { return dim.stride % 4 == 0; });
}

}  // namespace nibble
