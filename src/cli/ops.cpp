#include <algorithm>
#include <iterator>

#include "cli/commands.hpp"
#include "cli/table.hpp"
#include "graph/passes/passes.hpp"
#include "ops/registry.hpp"

namespace nibble::cli {

Status ops_command(const OpsOptions& options) {
  if (options.passes) {
    Table table("ll");
    for (const auto& pass : passes()) table.row({std::string(pass.name), std::string(pass.what)});
    print(table.text());
    return {};
  }
  // Names of our own are what passes make, nothing that a program has.
  std::vector<OpEntry> registry;
  std::ranges::copy_if(ops::registry(), std::back_inserter(registry),
                       [](const OpEntry& op) { return !op.name.starts_with("nibble."); });
  if (!options.markdown) {
    Table table("lll");
    table.row({"operator", "types", "notes"});
    for (const auto& op : registry) table.row({std::string(op.name), std::string(op.dtypes), std::string(op.notes)});
    print(table.text());
    return {};
  }
  print(
      "# Operators\n\n"
      "What Nibble runs, by the names that the exporter writes. `nibble ops --markdown` prints this page.\n\n"
      "| operator | types | notes |\n|---|---|---|\n");
  for (const auto& op : registry) print(fmt::format("| `{}` | {} | {} |\n", op.name, op.dtypes, op.notes));
  return {};
}

}  // namespace nibble::cli
