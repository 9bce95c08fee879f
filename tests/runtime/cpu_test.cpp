#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/device/device.h"
#include "shoal/runtime/tensor/image_ops.h"
#include "shoal/runtime/tensor/ops.h"
#include "shoal/runtime/tensor/random.h"

// What the cpu computes, in whichever instruction set this program was told to: ctest runs it, as
// the other tests of arithmetic, once for each.
namespace shoal {
namespace {

TEST(Cpu, ComputesWithTheInstructionSetThatWasAskedFor) {
  const std::set<std::string_view> known{"baseline", "avx2", "avx512"};
  EXPECT_EQ(known.count(cpu_instruction_set()), 1U) << cpu_instruction_set();
  const char* wanted = std::getenv("SHOAL_CPU");
  if (wanted != nullptr && std::string(wanted) == "baseline") {
    EXPECT_EQ(cpu_instruction_set(), "baseline");
  }
}

template <class T>
class CpuNumbers : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(CpuNumbers, Floats);

template <class T>
std::vector<T> edges() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> all{0,
                     -T{0},
                     1,
                     -1,
                     T{0.5},
                     2,
                     88,
                     T{88.6},
                     T{88.8},
                     -87,
                     -88,
                     -104,
                     709,
                     -745,
                     -746,
                     Limits::infinity(),
                     -Limits::infinity(),
                     Limits::quiet_NaN(),
                     Limits::min(),
                     Limits::denorm_min(),
                     Limits::max(),
                     Limits::lowest()};
  for (int i = 0; i < 40; ++i) all.push_back(static_cast<T>(std::ldexp(1.37, i - 20)));
  return all;
}

// Each edge at each place of a span: at its head, in the registers, in what is left.
template <class T, class Op, class Reference>
void expect_everywhere(Op op, Reference reference, T tolerance) {
  constexpr std::int64_t kLength = 37;
  for (const T edge : edges<T>()) {
    const Tensor y = op(Tensor::full({kLength}, 1, dtype_of<T>).fill_(static_cast<double>(edge)));
    const T wanted = reference(edge);
    for (const T found : y.span<T>()) {
      if (std::isnan(wanted)) {
        ASSERT_TRUE(std::isnan(found)) << edge;
      } else if (std::isinf(wanted) || wanted == 0) {
        ASSERT_EQ(found, wanted) << edge;
        ASSERT_EQ(std::signbit(found), std::signbit(wanted)) << edge;
      } else {
        ASSERT_NEAR(found / wanted, 1, tolerance) << edge;
      }
    }
  }
}

TYPED_TEST(CpuNumbers, AreRightAtTheEdges) {
  using T = TypeParam;
  const T few = 8 * std::numeric_limits<T>::epsilon();
  expect_everywhere<T>([](const Tensor& x) { return ops::neg(x); }, [](T x) { return -x; }, T{0});
  expect_everywhere<T>([](const Tensor& x) { return ops::sqrt(x); },
                       [](T x) { return std::sqrt(x); }, T{0});
  expect_everywhere<T>([](const Tensor& x) { return ops::abs(x); }, [](T x) { return std::abs(x); },
                       T{0});
  expect_everywhere<T>([](const Tensor& x) { return ops::relu(x); },
                       [](T x) { return x < 0 ? T{0} : x; }, T{0});
  // Denormal results aside, which Eigen may flush to 0 before libm does.
  expect_everywhere<T>(
      [](const Tensor& x) {
        const Tensor y = ops::exp(x);
        for (T& e : y.span<T>())
          if (e < std::numeric_limits<T>::min()) e = 0;
        return y;
      },
      [](T x) {
        const T y = std::exp(x);
        return y < std::numeric_limits<T>::min() ? T{0} : y;
      },
      few);
}

TYPED_TEST(CpuNumbers, LetANanSpoilItsRowAndNoOther) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN(), inf = std::numeric_limits<T>::infinity();
  for (const std::int64_t n : {3, 10, 16, 37}) {
    for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
      const Tensor x = Tensor::zeros({2, n}, dtype_of<T>);
      x.at<T>(0, at) = nan;
      const auto [losses, dx] = ops::cross_entropy(x, Tensor::zeros({2}, DType::i64));
      EXPECT_TRUE(std::isnan(losses.template at<T>(0)));
      EXPECT_FALSE(std::isnan(losses.template at<T>(1)));
      for (const Tensor& y : {ops::log_softmax(x), dx}) {
        for (std::int64_t i = 0; i < n; ++i) {
          EXPECT_TRUE(std::isnan(y.at<T>(0, i))) << n << ' ' << i;
          EXPECT_FALSE(std::isnan(y.at<T>(1, i))) << n << ' ' << i;
        }
      }
      // What is left out by -infinity has no share.
      x.at<T>(0, at) = -inf;
      EXPECT_EQ(ops::log_softmax(x).template at<T>(0, at), -inf);
    }
  }
}

// Products of all small sizes, transposed or not, one or many rows, against sums in f64.
TYPED_TEST(CpuNumbers, MultipliesMatricesOfEverySize) {
  using T = TypeParam;
  Generator generator(3);
  const std::array<std::int64_t, 9> sizes{0, 1, 2, 5, 16, 17, 33, 63, 65};
  for (const std::int64_t m : sizes) {
    for (const std::int64_t n : sizes) {
      for (const std::int64_t k : {0, 1, 3, 16, 50, 300}) {
        for (int transposes = 0; transposes < 4; ++transposes) {
          const auto draw = [&](std::int64_t rows, std::int64_t columns, bool transposed) {
            const Shape shape = transposed ? Shape{columns, rows} : Shape{rows, columns};
            const Tensor x = Tensor::uniform(shape, -1, 1, generator, dtype_of<T>);
            return transposed ? x.transpose() : x;
          };
          const Tensor a = draw(m, k, (transposes & 1) != 0), b = draw(k, n, transposes > 1);
          const Tensor c = Tensor::full({m, n}, 3, dtype_of<T>);
          ops::addmm(c, a, b, transposes % 2);
          const double start = transposes % 2 == 0 ? 0 : 3;
          // A corner, an edge and a place within, which is what blocks get wrong.
          for (const std::int64_t i : {std::int64_t{0}, m / 2, m - 1}) {
            for (const std::int64_t j : {std::int64_t{0}, n / 2, n - 1}) {
              if (i < 0 || j < 0 || i >= m || j >= n) continue;
              double wanted = start;
              for (std::int64_t l = 0; l < k; ++l)
                wanted += double{a.at<T>(i, l)} * double{b.at<T>(l, j)};
              ASSERT_NEAR(c.at<T>(i, j), wanted, 1e3 * std::numeric_limits<T>::epsilon())
                  << m << ' ' << n << ' ' << k << ' ' << transposes;
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(CpuNumbers, PoolsTheFirstOfTheLargestAndNanBeforeAll) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  Generator generator(4);
  for (const std::int64_t width : {2, 5, 8, 11, 16, 17, 24, 40}) {
    const Tensor x = Tensor::empty({2, 3, 6, width}, dtype_of<T>);
    // Few values, so that there are ties.
    for (T& e : x.span<T>()) {
      const auto drawn = generator.below(8);
      e = drawn == 7 ? nan : static_cast<T>(drawn) - 3;
    }
    const auto [values, index] = ops::max_pool2d(x, 2, 2);
    for (std::int64_t n = 0; n < 2; ++n) {
      for (std::int64_t c = 0; c < 3; ++c) {
        for (std::int64_t i = 0; i < 3; ++i) {
          for (std::int64_t j = 0; j < width / 2; ++j) {
            std::int64_t best = 2 * i * width + 2 * j;
            const auto at = [&](std::int64_t e) { return x.at<T>(n, c, e / width, e % width); };
            for (const std::int64_t e : {best + 1, best + width, best + width + 1})
              if (at(e) > at(best) || (std::isnan(at(e)) && !std::isnan(at(best)))) best = e;
            ASSERT_EQ(index.template at<std::int64_t>(n, c, i, j), best) << width;
            const T found = values.template at<T>(n, c, i, j);
            ASSERT_TRUE(found == at(best) || (std::isnan(found) && std::isnan(at(best))));
          }
        }
      }
    }
  }
}

TEST(CpuImages, TakeStridesLongerThanTheImageAndNoImagesAtAll) {
  const Tensor x = Tensor::arange(0, 16, DType::f32).reshape({1, 1, 4, 4});
  const Tensor kernel = Tensor::ones({1, 1, 2, 2});
  const Tensor y = ops::conv2d(x, kernel, {}, {.stride = INT64_MAX, .padding = 1});
  EXPECT_EQ(y.shape(), (Shape{1, 1, 1, 1}));
  EXPECT_EQ(y.item<float>(), 0);  // the corner: padding, and element 0
  EXPECT_EQ(ops::max_pool2d(x, 2, INT64_MAX).values.item<float>(), 5);
  const Tensor none = Tensor::zeros({0, 1, 1000, 1000});
  EXPECT_EQ(ops::conv2d(none, Tensor::ones({1, 1, 1, 1}), {}, {.padding = 100'000}).numel(), 0);
  EXPECT_THROW((void)ops::conv2d(x, kernel, {}, {.padding = INT32_MAX}), Error);
}

TEST(CpuCrossEntropy, OfNoClassesIsNothing) {
  const auto [losses, dx] =
      ops::cross_entropy(Tensor::zeros({3, 0}), Tensor::full({3}, -1, DType::i64));
  EXPECT_TRUE(equal(losses, Tensor::zeros({3})));
  EXPECT_EQ(dx.numel(), 0);
}

}  // namespace
}  // namespace shoal
