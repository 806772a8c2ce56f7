// Checks of a thread that ask whether to stop: see set_stop_check().
#pragma once

#include <functional>

#include "nibble/nibble.hpp"

namespace nibble::test {

/// What the check of this thread does: at the n-th question it says yes, or cancels a session.
struct Questions {
  static inline int asked = 0;
  static inline int yes_at = 0;
  static inline Session* cancels = nullptr;

  explicit Questions(int at, Session* session = nullptr) {
    asked = 0;
    yes_at = at;
    cancels = session;
    set_stop_check([] {
      if (++asked != yes_at) return false;
      if (cancels != nullptr) cancels->cancel();
      return cancels == nullptr;
    });
  }
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;
  ~Questions() { set_stop_check(nullptr); }
};

/// A check of this thread that does something and never wants to stop.
struct Acts {
  static inline std::function<void()> act;

  explicit Acts(std::function<void()> given) {
    act = std::move(given);
    set_stop_check([] {
      act();
      return false;
    });
  }
  Acts(const Acts&) = delete;
  Acts& operator=(const Acts&) = delete;
  ~Acts() { set_stop_check(nullptr); }
};

}  // namespace nibble::test
