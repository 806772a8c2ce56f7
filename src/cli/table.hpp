// Columns of text.
#pragma once

#include <string>
#include <vector>

namespace nibble::cli {

class Table {
 public:
  /// `layout`: one letter per column, l for left and r for right.
  explicit Table(std::string layout) : layout_(std::move(layout)) {}

  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  std::string text(std::string_view indent = "") const;

 private:
  std::string layout_;
  std::vector<std::vector<std::string>> rows_;
};

/// Writes to stdout. Whether all of it arrived is checked once, at the end (see main.cpp).
void print(std::string_view text);

}  // namespace nibble::cli
