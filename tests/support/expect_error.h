#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string_view>

#include "shoal/runtime/base/error.h"

namespace shoal {

// That `body` throws an Error of this kind, whose message has all of `parts`.
template <class Body, class... Parts>
void expect_error(ErrorKind kind, Body&& body, const Parts&... parts) {
  try {
    body();
    ADD_FAILURE() << "no Error; expected one of kind " << to_string(kind);
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.kind()), to_string(kind)) << error.what();
    for (const std::string_view part : std::initializer_list<std::string_view>{parts...})
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
          << "\"" << part << "\" is missing in: " << error.what();
  }
}

}  // namespace shoal
