// Asking results whether they failed, and why.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "nibble/types.hpp"

namespace nibble::test {

/// EXPECT_TRUE(succeeds(result)) shows the error's sentence.
template <class T>
testing::AssertionResult succeeds(const Result<T>& result) {
  if (result) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "error: " << result.error().message;
}

/// EXPECT_TRUE(fails_with(result, "a part of the sentence"))
template <class T>
testing::AssertionResult fails_with(const Result<T>& result, std::string_view part) {
  if (result) return testing::AssertionFailure() << "no error, wanted one with: " << part;
  if (result.error().message.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "error: " << result.error().message << "\nwanted one with: " << part;
}

}  // namespace nibble::test
