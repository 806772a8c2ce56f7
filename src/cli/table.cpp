#include "cli/table.hpp"

#include <algorithm>
#include <cstdio>

namespace nibble::cli {
namespace {

/// Columns that UTF-8 text takes, as far as one code point is one column.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string Table::text(std::string_view indent) const {
  std::vector<std::size_t> widths(layout_.size());
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size() && c < widths.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (std::size_t c = 0; c < row.size() && c < widths.size(); ++c) {
      const std::string padding(widths[c] - width(row[c]), ' ');
      if (c != 0) line += "  ";
      line += layout_[c] == 'r' ? padding + row[c] : row[c] + padding;
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace nibble::cli
