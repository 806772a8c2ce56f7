#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "plan/print.hpp"

namespace nibble::cli {
namespace {

constexpr std::uint64_t kWorthShowing = 16ULL << 20;
constexpr std::uint64_t kWidth = 32;
constexpr std::chrono::milliseconds kInterval{50};

}  // namespace

Progress::Progress(Of what) : what_(what), is_terminal_(isatty(STDERR_FILENO) == 1) {}
Progress::~Progress() { clear(); }

std::function<void(std::uint64_t, std::uint64_t)> Progress::callback() {
  if (!is_terminal_) return {};
  return [this](std::uint64_t done, std::uint64_t total) { update(done, total); };
}

void Progress::update(std::uint64_t done, std::uint64_t total) {
  if (what_ == Of::loading && total < kWorthShowing) return;
  const auto now = std::chrono::steady_clock::now();
  if (is_drawn_ && done < total && now - last_ < kInterval) return;
  last_ = now;
  is_drawn_ = true;
  const auto filled = static_cast<std::size_t>(static_cast<double>(done) / static_cast<double>(total) * kWidth);
  const auto amount = [&](std::uint64_t n) { return what_ == Of::loading ? format_bytes(n) : std::to_string(n); };
  const std::string bar = fmt::format("\r{} [{:<{}}] {} of {}\x1b[K", what_ == Of::loading ? "loading" : "tuning",
                                      std::string(filled, '#'), kWidth, amount(done), amount(total));
  std::fputs(bar.c_str(), stderr);
  std::fflush(stderr);
}

void Progress::clear() {
  if (!is_drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  is_drawn_ = false;
}

}  // namespace nibble::cli
