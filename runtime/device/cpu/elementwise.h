#pragma once

// One element at a time. Included as spans.h is.

#include <cmath>

#include "shoal/runtime/device/cpu/spans.h"
#include "shoal/runtime/device/device.h"

namespace shoal::SHOAL_CPU_SET {

// Beyond these Eigen's exp may be a few steps off the ends: not yet infinite, or not yet 0.
template <class T>
constexpr T kExpLimit = sizeof(T) == 4 ? T{87} : T{708};

template <class T>
void exp_of(T* y, const T* x, std::int64_t n) {
  constexpr std::int64_t kBlock = 256;
  for (std::int64_t start = 0; start < n; start += kBlock) {
    const std::int64_t count = n - start < kBlock ? n - start : kBlock;
    const auto in = span_of<T>(x + start, count);
    if ((in.abs() <= kExpLimit<T>).all()) {  // no NaN either
      span_of<T>(y + start, count) = in.exp();
    } else {
      for (std::int64_t i = start; i < start + count; ++i) y[i] = std::exp(x[i]);
    }
  }
}

template <class T>
void unary(UnaryOp op, T* y, const T* x, std::int64_t n) {
  auto out = span_of<T>(y, n);
  const auto in = span_of<T>(x, n);
  switch (op) {
    case UnaryOp::negate:
      // Not Eigen's, which makes 0 of 0.
      for (std::int64_t i = 0; i < n; ++i) y[i] = -x[i];
      break;
    // Not max(0, x): a NaN must stay one.
    case UnaryOp::relu:
      out = (in < T{0}).select(T{0}, in);
      break;
    case UnaryOp::square:
      out = in.square();
      break;
    case UnaryOp::abs:
      out = in.abs();
      break;
    case UnaryOp::sign:
      out = in.sign();
      break;
    case UnaryOp::exp:
      exp_of(y, x, n);
      break;
    case UnaryOp::log:
      out = in.log();
      break;
    case UnaryOp::sqrt:
      // Not Eigen's, which is not rounded rightly, nor right at the ends.
      for (std::int64_t i = 0; i < n; ++i) y[i] = std::sqrt(x[i]);
      break;
    // exp may overflow to infinity, which is right: 1 / (1 + inf) = 0.
    case UnaryOp::sigmoid:
      for (std::int64_t i = 0; i < n; ++i) y[i] = -x[i];
      exp_of(y, y, n);
      out = (T{1} + out).inverse();
      break;
    case UnaryOp::tanh:
      out = in.tanh();
      break;
  }
}

template <class T>
void binary(BinaryOp op, T* y, const T* a, const T* b, std::int64_t n) {
  auto out = span_of<T>(y, n);
  const auto left = span_of<T>(a, n), right = span_of<T>(b, n);
  switch (op) {
    case BinaryOp::add:
      out = left + right;
      break;
    case BinaryOp::subtract:
      out = left - right;
      break;
    case BinaryOp::multiply:
      out = left * right;
      break;
    case BinaryOp::divide:
      out = left / right;
      break;
    case BinaryOp::relu_backward:
      for (std::int64_t i = 0; i < n; ++i) y[i] = b[i] > T{0} ? a[i] : T{0};
      break;
    case BinaryOp::sigmoid_backward:
      out = left * right * (T{1} - right);
      break;
    case BinaryOp::tanh_backward:
      out = left * (T{1} - right.square());
      break;
  }
}

// The formula of optim/sgd.h, each operation rounded by itself as in PyTorch's loop over whole
// tensors, so that all instruction sets give the same bits. What is not asked for is left out, not
// multiplied by 0: w may be infinite.
template <class T, bool kDecays>
void step_momentum(const SgdStep& s, T* w, const T* g, T* velocity, std::int64_t n) {
  const T lr = static_cast<T>(s.lr), mu = static_cast<T>(s.momentum);
  const T keep = static_cast<T>(1 - s.dampening), decay = static_cast<T>(s.weight_decay);
  const T sign = s.maximize ? T{-1} : T{1};
  const auto gradient = [&](std::int64_t i) {
    return kDecays ? sign * g[i] + decay * w[i] : sign * g[i];
  };
  if (mu == 0) {
    for (std::int64_t i = 0; i < n; ++i) w[i] -= lr * gradient(i);
  } else if (s.first) {
    for (std::int64_t i = 0; i < n; ++i) {
      velocity[i] = gradient(i);
      w[i] -= lr * (s.nesterov ? velocity[i] + mu * velocity[i] : velocity[i]);
    }
  } else if (s.nesterov) {
    for (std::int64_t i = 0; i < n; ++i) {
      const T d = gradient(i);
      velocity[i] = mu * velocity[i] + keep * d;
      w[i] -= lr * (d + mu * velocity[i]);
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      velocity[i] = mu * velocity[i] + keep * gradient(i);
      w[i] -= lr * velocity[i];
    }
  }
}

template <class T>
void step_sgd(const SgdStep& s, T* w, const T* g, T* velocity, std::int64_t n) {
  if (s.weight_decay != 0) {
    step_momentum<T, true>(s, w, g, velocity, n);
  } else {
    step_momentum<T, false>(s, w, g, velocity, n);
  }
}

}  // namespace shoal::SHOAL_CPU_SET
