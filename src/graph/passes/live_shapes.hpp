// Which tensors have the same shape in every call.
#pragma once

#include <map>
#include <tuple>

#include "graph/passes/rewrite.hpp"

namespace nibble {

class LiveShapes {
 public:
  explicit LiveShapes(const Graph& graph);

  /// Whether both have the same shape, whatever the caller passes. False where nothing says so.
  bool same(ValueId a, ValueId b) const { return !sizes_[a].empty() && sizes_[a] == sizes_[b]; }

 private:
  /// A number below zero stands for a size that is not known; equal ones for the same size.
  using Sizes = std::vector<std::int64_t>;

  bool is_known(ValueId v) const;
  Sizes unknown(std::size_t rank);
  Sizes result_of(const Node& node, const TensorValue& out);
  Sizes broadcast(const Node& node, const TensorValue& out);
  std::optional<Sizes> convolved(const Node& node, const TensorValue& out);

  const Graph& graph_;
  std::vector<Sizes> sizes_;  ///< per value; empty for what is no tensor, and for scalars
  std::int64_t next_ = -1;
  /// What a filter makes of a size: by its stride, and by how much more it touches than is there.
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t> strided_;
};

}  // namespace nibble
