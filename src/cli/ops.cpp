#include "api/ops_json.hpp"
#include "cli/commands.hpp"
#include "cli/table.hpp"
#include "graph/passes/passes.hpp"
#include "ops/registry.hpp"

namespace nibble::cli {
namespace {

std::string arguments(const Op& op) {
  std::vector<std::string_view> names;
  for (const auto& arg : op.signature.args()) {
    if (arg.role != Role::ignored && !is_output(arg.role)) names.push_back(arg.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void print_variants(bool as_json) {
  Table table("lll");
  table.row({"choice", "variant", "why"});
  auto list = Json::array();
  for (const auto* choice : all_choices(ops::registry())) {
    for (const auto& variant : choice->variants) {
      table.row({std::string(choice->name), std::string(variant.name), std::string(variant.why.text)});
      list.push_back({{"choice", choice->name}, {"variant", variant.name}, {"why", variant.why.text}});
    }
  }
  print(as_json ? list.dump(2) + '\n' : table.text());
}

void print_passes() {
  Table table("ll");
  for (const auto& pass : passes()) table.row({std::string(pass.name), std::string(pass.what.text)});
  print(table.text());
}

void print_table() {
  Table table("lll");
  table.row({"operator", "arguments", "notes"});
  for (const auto& family : ops::registry()) {
    for (const auto& op : family.ops) {
      // Names of our own are what passes make, nothing that a program has.
      if (op.name().starts_with("nibble.")) continue;
      table.row({std::string(op.name()), arguments(op), std::string(op.notes.text)});
    }
  }
  print(table.text());
}

}  // namespace

Status ops_command(const OpsOptions& options) {
  if (options.variants) {
    print_variants(options.json);
  } else if (options.passes) {
    print_passes();
  } else if (options.json) {
    print(ops_json().dump(2) + '\n');
  } else {
    print_table();
  }
  return {};
}

}  // namespace nibble::cli
