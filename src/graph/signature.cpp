#include "graph/signature.hpp"

#include <cassert>
#include <map>

#include "graph/graph.hpp"

namespace nibble {

std::string_view to_string(Role role) noexcept {
  switch (role) {
    case Role::tensor: return "tensor";
    case Role::table: return "table";
    case Role::columns: return "matrix";
    case Role::state: return "state";
    case Role::ids: return "indices";
    case Role::host: return "host data";
    case Role::tensors: return "tensors";
    case Role::number: return "number";
    case Role::numbers: return "numbers";
    case Role::integer: return "int";
    case Role::live_integer: return "int or SymInt";
    case Role::boolean: return "bool";
    case Role::text: return "text";
    case Role::ints: return "ints";
    case Role::live_ints: return "ints or SymInts";
    case Role::ignored: return "ignored";
    case Role::out: return "tensor";
    case Role::view: return "view";
    case Role::outs: return "tensors";
    case Role::integer_out: return "int";
  }
  return "unknown";
}

ValueId Node::operator[](std::string_view arg) const {
  const auto place = signature->find(arg);
  assert(place && "the op has no argument of this name");
  return args[place.value_or(0)];
}

void Node::set(std::string_view arg, ValueId v) {
  const auto place = signature->find(arg);
  assert(place && "the op has no argument of this name");
  if (place) args[*place] = v;
}

std::optional<ValueId> Node::viewed() const {
  const auto place = signature->viewed();
  return place ? std::optional(args[*place]) : std::nullopt;
}

Status bind_signatures(Graph& graph, const FindSignature& find) {
  std::vector<std::string_view> missing;
  std::map<std::string_view, const Signature*> known;
  for (auto& node : graph.nodes) {
    const auto [entry, is_new] = known.emplace(node.op, nullptr);
    if (is_new) entry->second = find(node.op);
    node.signature = entry->second;
    if (is_new && node.signature == nullptr) missing.push_back(node.op);
  }
  if (!missing.empty()) {
    return fail(ErrorCode::unsupported, "the program uses {} that Nibble does not have: {}",
                missing.size() == 1 ? "an operator" : "operators", joined(missing));
  }
  for (const auto& node : graph.nodes) {
    if (node.args.size() != node.signature->count) {
      return fail(ErrorCode::invalid_program, "{}: takes {} arguments, but the program gives {}", node.name(),
                  node.signature->count, node.args.size());
    }
  }
  return {};
}

}  // namespace nibble
