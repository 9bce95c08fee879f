#pragma once

#include <string>

// What several modules check and write alike. Private to this folder.
namespace shoal::autograd {

// p itself; throws Error(invalid_argument) unless it is in [0, 1).
[[nodiscard]] double checked_probability(double p, const char* name);

// A number as a module's spec has it, so that it reads back as the same.
[[nodiscard]] std::string real_text(double value);

}  // namespace shoal::autograd
