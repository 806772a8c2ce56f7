// Sorting in little code.
#pragma once

#include <algorithm>
#include <functional>

namespace nibble {

/// As std::ranges::sort, whose code is ten times as large for each type that it sorts: the web's package carries it.
template <class Range, class Less = std::ranges::less>
void heap_sort(Range& range, Less less = {}) {
  std::ranges::make_heap(range, less);
  std::ranges::sort_heap(range, less);
}

}  // namespace nibble
