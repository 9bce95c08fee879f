#include <utility>

#include "shoal/autograd/record.h"
#include "shoal/runtime/base/error.h"

namespace shoal::autograd {

Saved::Saved(const char* op, Tensor value) : op_(op), value_(std::move(value)) {
  check(value_.defined(), ErrorKind::invalid_argument, op, "an operand is undefined");
  version_ = value_.storage()->version();
}

const Tensor& Saved::get() const {
  check(value_.defined(), ErrorKind::invalid_argument, "Saved::get", "nothing was saved");
  check(value_.storage()->version() == version_, ErrorKind::invalid_argument, "backward", "'", op_,
        "' needs a value of shape ", value_.shape(),
        " that was changed in place since; change it after backward(), or give a clone() of it");
  return value_;
}

}  // namespace shoal::autograd
