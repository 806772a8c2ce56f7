#include "cli/commands.hpp"
#include "cli/table.hpp"
#include "ops/registry.hpp"

namespace nibble::cli {

Status ops_command(const OpsOptions& options) {
  const Registry registry = ops::registry();
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
