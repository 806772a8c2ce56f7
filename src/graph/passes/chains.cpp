// Elementwise ops that read each other become one node, and elementwise ops that follow a convolution, a product or a
// reduction go into its kernel: what passes between them is never stored.
#include <algorithm>

#include "graph/passes/live_shapes.hpp"
#include "graph/sort.hpp"

namespace nibble {
namespace {

// What a kernel has room for; see Chain and chain.wgsl.
constexpr std::size_t kMostNodes = 16;
constexpr std::size_t kMostOperands = 6;
constexpr std::size_t kMostNumbers = 8;
constexpr std::size_t kMostRank = 4;
// After another op's kernel, which has up to five buffers of its own.
constexpr std::size_t kMostOperandsAfter = 3;
constexpr std::size_t kMostNumbersAfter = 4;

bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16; }

bool is_quantize(const Node& node) { return node.op.starts_with("quantized_decomposed."); }

/// An elementwise op on floats, or one that makes floats of integers or integers of floats.
bool is_step(const Graph& graph, const Node& node) {
  if (node.signature->joins != Joins::as_one) return false;
  if (!node.tail.empty()) return true;
  bool fits = true;
  for_each_operand(graph, node, [&](ValueId v, const Arg& arg) {
    const auto* t = graph.tensor(v);
    if (t == nullptr) {
      fits = fits && !is_output(arg.role);
    } else if (is_output(arg.role)) {
      fits = fits && (is_float(t->dtype) || is_quantize(node)) && t->shape.rank() <= kMostRank;
    } else {
      fits = fits && (is_float(t->dtype) || t->dtype == DType::i32 || t->dtype == DType::boolean || is_quantize(node));
    }
  });
  return fits;
}

bool has_numbers(const Node& node) { return node.signature->has(Role::number); }

template <class F>
void for_each_tensor(const Graph& graph, const Node& node, F&& f) {
  for_each_operand(graph, node, [&](ValueId v, const Arg& arg) {
    if (!is_output(arg.role) && graph.tensor(v) != nullptr) f(v);
  });
}

/// What passes over both rewrites need to know.
class Joiner {
 public:
  Joiner(Graph& graph, const PassContext& context)
      : rewriter_(graph, context), context_(context), is_constant_(graph.values.size()) {
    for (ValueId v = 0; v < is_constant_.size(); ++v) is_constant_[v] = rewriter_.is_constant(v);
    for (const auto& node : graph.nodes) {
      bool all = true;
      for_each_operand(graph, node, [&](ValueId v, const Arg& arg) {
        const bool counts = graph.tensor(v) != nullptr || std::holds_alternative<SymInt>(graph.values[v]);
        if (!is_output(arg.role) && counts) all = all && is_constant_[v];
      });
      is_constant_[node.out()] = all;
    }
  }

  Rewriter& rewriter() { return rewriter_; }

  /// The node that makes a value, if it may move to the value's only readers, which use it so many times.
  std::optional<std::size_t> movable(ValueId v, std::size_t uses) const {
    const auto n = rewriter_.producer(v);
    if (!n || rewriter_.uses(v) != uses || rewriter_.is_output(v) || is_constant_[v]) return {};
    // One of several outputs is not looked at further: each would go over all operands again.
    if (rewriter_.node(*n).out() != v) return {};
    bool is_steady = true;
    for_each_operand(rewriter_.graph(), rewriter_.node(*n), [&](ValueId operand, const Arg& arg) {
      if (!is_output(arg.role)) is_steady = is_steady && rewriter_.is_steady(operand);
    });
    return is_steady ? n : std::nullopt;
  }
  /// What depends on constants alone is computed at load.
  bool is_constant(ValueId v) const { return is_constant_[v]; }
  std::uint64_t most_bytes() const { return context_.max_constant_bytes; }

  /// Makes one node of these, which are in order, in the place of the last.
  void join(std::span<const std::size_t> nodes) {
    Node first = rewriter_.node(nodes.front());
    first.origin = std::string(first.name());
    for (const auto n : nodes.subspan(1)) {
      Node next = rewriter_.node(n);
      auto tail = std::exchange(next.tail, {});
      first.tail.push_back(std::move(next));
      std::ranges::move(tail, std::back_inserter(first.tail));
    }
    for (const auto n : nodes.first(nodes.size() - 1)) rewriter_.remove(n);
    rewriter_.replace(nodes.back(), std::move(first));
  }

 private:
  Rewriter rewriter_;
  const PassContext& context_;
  std::vector<bool> is_constant_;
};

/// Nodes that end in one, with what they read from elsewhere.
struct Group {
  std::vector<std::size_t> nodes;
  std::map<ValueId, std::size_t> reads;  ///< how often
  std::size_t numbers = 0;

  void add(const Graph& graph, const Rewriter& rewriter, std::size_t n) {
    nodes.push_back(n);
    numbers += has_numbers(rewriter.node(n)) ? 1 : 0;
    reads.erase(rewriter.node(n).out());
    for_each_tensor(graph, rewriter.node(n), [&](ValueId v) { ++reads[v]; });
  }
};

/// Adds a node that makes what the group reads and nobody else, if there is one.
bool grow(Joiner& joiner, const std::vector<bool>& steps, Group& group) {
  const auto& rewriter = joiner.rewriter();
  const Graph& graph = rewriter.graph();
  const auto& last = *graph.tensor(rewriter.node(group.nodes.front()).out());
  for (const auto& [v, uses] : group.reads) {
    const auto n = joiner.movable(v, uses);
    // A smaller one would be computed again for every element that repeats it.
    if (!n || !steps[*n] || graph.tensor(v)->shape.numel() != last.shape.numel()) continue;
    Group larger = group;
    larger.add(graph, rewriter, *n);
    if (larger.reads.size() > kMostOperands || larger.numbers > kMostNumbers) continue;
    group = std::move(larger);
    return true;
  }
  return false;
}

}  // namespace

void elementwise_chains(Graph& graph, const PassContext& context) {
  Joiner joiner(graph, context);
  auto& rewriter = joiner.rewriter();
  std::vector<bool> steps(rewriter.size());
  for (std::size_t n = 0; n < steps.size(); ++n) steps[n] = is_step(graph, rewriter.node(n));
  // From the end, so that a group grows towards what it reads.
  for (std::size_t n = rewriter.size(); n-- > 0;) {
    if (!steps[n] || joiner.is_constant(rewriter.node(n).out()) || !rewriter.producer(rewriter.node(n).out())) continue;
    Group group;
    group.add(graph, rewriter, n);
    while (group.nodes.size() < kMostNodes && grow(joiner, steps, group)) {
    }
    if (group.nodes.size() == 1) continue;
    heap_sort(group.nodes);
    for (const auto one : group.nodes) steps[one] = false;
    joiner.join(group.nodes);
  }
  rewriter.finish();
}

void epilogues(Graph& graph, const PassContext& context) {
  Joiner joiner(graph, context);
  auto& rewriter = joiner.rewriter();
  const LiveShapes live(graph);
  for (std::size_t n = 0; n < rewriter.size(); ++n) {
    const Node& node = rewriter.node(n);
    const auto* out = graph.tensor(node.out());
    if (out == nullptr || !is_step(graph, node) || !rewriter.producer(node.out())) continue;
    std::map<ValueId, std::size_t> reads;
    for_each_tensor(graph, node, [&](ValueId v) { ++reads[v]; });
    std::size_t numbers = has_numbers(node) ? 1 : 0;
    for (const auto& next : node.tail) numbers += has_numbers(next) ? 1 : 0;
    if (reads.size() > kMostOperandsAfter + 1 || numbers > kMostNumbersAfter) continue;
    // Of several ops before it, the last.
    std::optional<std::size_t> found;
    for (const auto& [v, uses] : reads) {
      const auto before = joiner.movable(v, uses);
      if (!before || rewriter.node(*before).signature->joins != Joins::steps) continue;
      if (!rewriter.node(*before).tail.empty() || (found && *before < *found)) continue;
      const auto* made = graph.tensor(v);
      const bool fits_type = made->dtype == out->dtype || (made->dtype == DType::i8 && out->dtype != DType::f64);
      if (!fits_type || !(made->shape == out->shape)) continue;
      const bool fits = std::ranges::all_of(reads, [&, value = v](const auto& read) {
        const auto& t = *graph.tensor(read.first);
        return t.shape.numel() == 1 || (t.shape == out->shape && live.same(read.first, value));
      });
      // A constant in shards takes several dispatches.
      bool is_whole = true;
      for_each_tensor(graph, rewriter.node(*before), [&](ValueId operand) {
        const auto& t = *graph.tensor(operand);
        is_whole = is_whole && (t.constant < 0 || Size::bytes(t.shape, t.dtype).unchecked() <= joiner.most_bytes());
      });
      if (fits && is_whole) found = before;
    }
    if (!found) continue;
    const std::array both = {*found, n};
    joiner.join(both);
  }
  rewriter.finish();
}

}  // namespace nibble
