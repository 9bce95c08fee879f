#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "shoal/runtime/base/error.h"

namespace shoal {

// `action` throws an Error of this kind whose message has all these words.
template <class F>
void expect_error(ErrorKind kind, std::initializer_list<const char*> words, F action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    for (const char* word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << "no \"" << word << "\" in: " << error.what();
    return;
  }
  ADD_FAILURE() << "nothing was thrown";
}

}  // namespace shoal
