#include "api/ops_json.hpp"

#include "ops/registry.hpp"

namespace nibble {
namespace {

Json to_json(const Arg& arg) {
  return {{"name", arg.name},
          {"role", to_string(arg.role)},
          {"optional", arg.optional},
          {"ignored", arg.role == Role::ignored},
          {"output", is_output(arg.role)}};
}

Json to_json(std::string_view family, const Op& op) {
  Json args = Json::array();
  for (const auto& arg : op.signature.args()) args.push_back(to_json(arg));
  return {{"name", op.name()}, {"family", family}, {"arguments", std::move(args)}, {"notes", op.notes.text}};
}

}  // namespace

Json ops_json() {
  Json rows = Json::array();
  for (const auto& family : ops::registry()) {
    for (const auto& op : family.ops) rows.push_back(to_json(family.name, op));
  }
  return rows;
}

}  // namespace nibble
