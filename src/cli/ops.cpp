#include <algorithm>
#include <iterator>

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

}  // namespace

Status ops_command(const OpsOptions& options) {
  if (options.passes) {
    Table table("ll");
    for (const auto& pass : passes()) table.row({std::string(pass.name), std::string(pass.what.text)});
    print(table.text());
    return {};
  }
  // Names of our own are what passes make, nothing that a program has.
  std::vector<Op> registry;
  for (const auto& family : ops::registry()) {
    std::ranges::copy_if(family.ops, std::back_inserter(registry),
                         [](const Op& op) { return !op.name().starts_with("nibble."); });
  }
  if (!options.markdown) {
    Table table("lll");
    table.row({"operator", "arguments", "notes"});
    for (const auto& op : registry) table.row({std::string(op.name()), arguments(op), std::string(op.notes.text)});
    print(table.text());
    return {};
  }
  print(
      "# Operators\n\n"
      "What Nibble runs, by the names that the exporter writes. `nibble ops --markdown` prints this page.\n\n"
      "| operator | arguments | notes |\n|---|---|---|\n");
  for (const auto& op : registry) print(fmt::format("| `{}` | {} | {} |\n", op.name(), arguments(op), op.notes.text));
  return {};
}

}  // namespace nibble::cli
