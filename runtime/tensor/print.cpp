#include <iomanip>
#include <ostream>
#include <sstream>

#include "shoal/runtime/device/dispatch.h"
#include "shoal/runtime/tensor/tensor.h"

// Tensor's text form:
//   Tensor f32 [2, 3]
//   [[1, 2, 3],
//    [4, 5, 6]]
namespace shoal {
namespace {

constexpr std::int64_t kLongAxis = 8;  // longer axes show their first and last few
constexpr std::int64_t kShownAtEachEnd = 3;

void print_element(std::ostream& out, const Tensor& scalar) {
  visit_dtype(scalar.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      out << (scalar.item<bool>() ? "true" : "false");
    } else if constexpr (std::is_integral_v<T>) {
      out << static_cast<std::int64_t>(scalar.item<T>());
    } else {
      out << scalar.to(DType::f64).item<double>();
    }
  });
}

void print_axis(std::ostream& out, const Tensor& tensor, int depth) {
  if (tensor.rank() == 0) return print_element(out, tensor);
  out << '[';
  const std::int64_t n = tensor.size(0);
  for (std::int64_t i = 0; i < n; ++i) {
    if (i > 0) {
      out << ',';
      if (tensor.rank() == 1) {
        out << ' ';
      } else {
        out << '\n' << std::string(static_cast<std::size_t>(depth) + 1, ' ');
      }
    }
    if (n > kLongAxis && i == kShownAtEachEnd) {
      out << "...";
      i = n - kShownAtEachEnd - 1;
      continue;
    }
    print_axis(out, tensor.select(0, i), depth + 1);
  }
  out << ']';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "Tensor undefined";
  // Formatted apart, so that the caller's flags neither bend the text nor change.
  std::ostringstream text;
  text << std::setprecision(tensor.dtype() == DType::f64 ? 10 : 6);
  text << "Tensor " << to_string(tensor.dtype()) << ' ' << tensor.shape() << '\n';
  print_axis(text, tensor, 0);
  return out << text.str();
}

}  // namespace shoal
