#include "plan/ledger.hpp"

#include "plan/storage.hpp"

namespace nibble {

std::unexpected<Error> Account::refuse() const {
  const auto paid = paid_.valid() ? fmt::format("at least {}", paid_.unchecked()) : "more than 64 bits can count";
  return fail(ErrorCode::unsupported, "the program takes {} {}, but the option {} allows {}", paid, what_, option_,
              most_);
}

Ledger::Ledger(const Options& options)
    : nodes("max_nodes", "nodes", options.max_nodes, DefaultLimits::max_nodes),
      host("max_host_bytes", "bytes on the host", options.max_host_bytes, DefaultLimits::max_host_bytes),
      device("max_device_bytes", "bytes on the device", options.max_device_bytes, DefaultLimits::max_device_bytes),
      dispatches("max_dispatches", "dispatches in a call", options.max_dispatches, DefaultLimits::max_dispatches) {}

Status Ledger::pay_for(const Graph& graph) {
  // The shapes of a value are in the explorer and in each session; rewrites keep a few numbers for it.
  constexpr std::size_t kPerValue = sizeof(Value) + sizeof(StorageEntry) + 2 * sizeof(Shape) + 128;
  // An operand is an argument, an item of a list and an operand of the plan.
  constexpr std::size_t kPerUse = 4 * sizeof(ValueId) + 16;
  constexpr std::size_t kPerNode = sizeof(Node) + sizeof(Operands) + 256;
  constexpr std::size_t kPerEnd = sizeof(InputDesc) + sizeof(OutputDesc) + 128;
  TRY(nodes.pay(graph.nodes.size()));
  TRY(host.pay(Size(graph.nodes.size()) * kPerNode + Size(graph.values.size()) * kPerValue +
               Size(graph.constants.size()) * sizeof(Constant) +
               Size(graph.inputs.size() + graph.outputs.size()) * kPerEnd));
  for (const auto& node : graph.nodes) {
    TRY(host.pay(Size(node.args.size()) * kPerUse + node.op.size()));
    for (auto v : node.args) {
      if (const auto* list = std::get_if<ValueList>(&graph.values[v]))
        TRY(host.pay(Size(list->items.size()) * kPerUse));
    }
  }
  return {};
}

}  // namespace nibble
