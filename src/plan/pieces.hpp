// How a dispatch that has more work than a batch may have is cut into pieces. These are dispatches of their own, each
// of which begins at another workgroup. A workgroup is not cut.
#pragma once

#include "plan/grid.hpp"

namespace nibble {

struct Piece {
  std::uint32_t first_group = 0;
  std::array<std::uint32_t, 3> grid{};
  std::uint64_t work = 0;
};

class Pieces {
 public:
  /// A dispatch of more would take minutes in any case, and each takes memory for its parameters.
  static constexpr std::uint32_t kMost = 1024;

  /// Of `threads` threads that have `work` in all, and whose grid would be `whole`. A piece has `most_work` at most, or
  /// else one workgroup. Where these would be more than `most` or kMost pieces, there are as many, and they are larger.
  Pieces(std::uint64_t threads, const Grid& whole, std::uint64_t work, std::uint64_t most_work, std::uint32_t most,
         const Limits& limits);

  std::uint32_t count() const { return count_; }
  /// In order they have each workgroup once. Only the last grid may have more, as `whole` may.
  Piece operator[](std::uint32_t i) const;

 private:
  std::uint64_t groups_;
  std::uint64_t work_;
  std::uint64_t group_work_;
  std::uint32_t count_ = 1;
  std::uint64_t step_ = 0;  ///< workgroups of each piece but the last
  std::array<std::uint32_t, 3> grid_{};
  std::array<std::uint32_t, 3> last_grid_;
};

}  // namespace nibble
