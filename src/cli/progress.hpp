// A bar on stderr while weights are uploaded, or variants are measured: only on a terminal, only when there is
// something to wait for.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace nibble::cli {

class Progress {
 public:
  enum class Of : std::uint8_t { loading, tuning };

  explicit Progress(Of what = Of::loading);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// For the options of a load or a tuning; empty when nothing is to be shown. Must not outlive this object.
  std::function<void(std::uint64_t, std::uint64_t)> callback();
  /// Takes the bar away.
  void clear();

 private:
  void update(std::uint64_t done, std::uint64_t total);

  Of what_;
  bool is_terminal_;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace nibble::cli
