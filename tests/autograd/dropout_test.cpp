#include <gtest/gtest.h>

#include "autograd/expect_error.h"
#include "shoal/autograd/functions.h"
#include "shoal/autograd/modules.h"
#include "shoal/autograd/vision_modules.h"

namespace shoal::autograd {
namespace {

TEST(Dropout, ZeroesItsShareAndKeepsTheMean) {
  Generator generator(5);
  const Variable x(Tensor::ones({100, 100}));
  const Tensor y = dropout(x, 0.25, generator).value();
  std::int64_t zeros = 0;
  for (const float element : y.span<float>()) {
    EXPECT_TRUE(element == 0 || element == 1 / 0.75f);
    zeros += element == 0;
  }
  // Six standard deviations of a binomial distribution.
  EXPECT_NEAR(static_cast<double>(zeros), 2500, 6 * 43.4);
  EXPECT_FALSE(equal(dropout(x, 0.25, generator).value(), y));
  Generator again(5);
  EXPECT_TRUE(equal(dropout(x, 0.25, again).value(), y));
}

TEST(Dropout, OfPlanesTakesThemWhole) {
  Generator generator(5);
  const Tensor y = dropout2d(Variable(Tensor::ones({8, 8, 3, 3})), 0.5, generator).value();
  std::int64_t zeros = 0;
  for (int n = 0; n < 8; ++n) {
    for (int c = 0; c < 8; ++c) {
      const Tensor plane = y.select(0, n).select(0, c);
      EXPECT_TRUE(equal(plane, Tensor::full({3, 3}, plane.at<float>(0, 0))));
      zeros += plane.at<float>(0, 0) == 0;
    }
  }
  EXPECT_NEAR(static_cast<double>(zeros), 32, 6 * 4);
  expect_error(ErrorKind::invalid_argument, {"dropout2d", "[2, 2]"}, [&] {
    (void)dropout2d(Variable(Tensor::ones({2, 2})), 0.5, generator);
  });
}

TEST(Dropout, IsOffInUseAndOnInTraining) {
  Generator generator(1);
  const auto layer = std::make_shared<Dropout>(0.5, generator);
  Sequential model({layer, std::make_shared<Dropout2d>(0.5, generator)});
  const Variable x(Tensor::ones({2, 3, 4, 4}));
  EXPECT_TRUE(model.is_training());
  EXPECT_FALSE(equal(model.forward(x).value(), x.value()));
  model.eval();
  EXPECT_FALSE(layer->is_training());
  EXPECT_TRUE(equal(model.forward(x).value(), x.value()));
  model.train();
  EXPECT_TRUE(layer->is_training());
  EXPECT_FALSE(equal(model.forward(x).value(), x.value()));
}

TEST(Dropout, RefusesWhatIsNoProbability) {
  Generator generator(1);
  for (const double p : {-0.1, 1.0, 2.0})
    expect_error(ErrorKind::invalid_argument, {"Dropout", "[0, 1)"},
                 [&] { const Dropout bad(p, generator); });
  expect_error(ErrorKind::invalid_argument, {"dropout", "[0, 1)"},
               [&] { (void)dropout(Variable(Tensor::ones({2})), 1, generator); });
}

}  // namespace
}  // namespace shoal::autograd
