#include "shoal/autograd/module_spec.h"

#include <gtest/gtest.h>

#include "autograd/expect_error.h"
#include "shoal/autograd/modules.h"

namespace shoal::autograd {
namespace {

constexpr ErrorKind kMisuse = ErrorKind::invalid_argument;

std::string nested(int levels) {
  std::string text;
  for (int i = 1; i < levels; ++i) text += "Sequential(";
  text += "ReLU()";
  return text + std::string(static_cast<std::size_t>(levels - 1), ')');
}

TEST(ModuleSpec, ReadsNamesNumbersAndModules) {
  const ModuleSpec spec = parse_module_spec("A_1(1, -2, B(), 9223372036854775807, C(3))");
  EXPECT_EQ(spec.name, "A_1");
  EXPECT_EQ(spec.numbers, (std::vector<std::int64_t>{1, -2, INT64_MAX}));
  ASSERT_EQ(spec.modules.size(), 2U);
  EXPECT_EQ(spec.modules[0].name, "B");
  EXPECT_EQ(spec.modules[1].numbers, std::vector<std::int64_t>{3});
}

TEST(ModuleSpec, TellsRealsFromIntegers) {
  const ModuleSpec spec = parse_module_spec("A(0.5, 1, -2.5e-3, 3e2)");
  EXPECT_EQ(spec.reals, (std::vector<double>{0.5, -2.5e-3, 300}));
  EXPECT_EQ(spec.numbers, std::vector<std::int64_t>{1});
}

TEST(ModuleSpec, AllowsBlanksAnywhereBetween) {
  const ModuleSpec spec = parse_module_spec(" \tA\n( 1 ,B ( ) ) ");
  EXPECT_EQ(spec.name, "A");
  EXPECT_EQ(spec.numbers.size(), 1U);
  EXPECT_EQ(spec.modules.size(), 1U);
}

TEST(ModuleSpec, PointsAtTheColumnOfAMistake) {
  struct Mistake {
    std::string_view text;
    const char* column;
    const char* wanted;
  };
  using namespace std::string_view_literals;
  const Mistake mistakes[] = {
      {"", "column 1:", "a name"},
      {"  ", "column 3:", "a name"},
      {"7", "column 1:", "a name"},
      {"ReLU", "column 5:", "'('"},
      {"ReLU(", "column 6:", "a name"},
      {"A(1", "column 4:", "',' or ')'"},
      {"A(1 2)", "column 5:", "',' or ')'"},
      {"A(1,)", "column 5:", "a name"},
      {"A(,1)", "column 3:", "a name"},
      {"A(1x)", "column 4:", "found 'x'"},
      {"A(1.5.2)", "column 6:", "found '.'"},
      {"A(1e999)", "column 3:", "a finite number"},
      {"A(-)", "column 3:", "an integer of 64 bits"},
      {"A(9223372036854775808)", "column 3:", "an integer of 64 bits"},
      {"A() B()", "column 5:", "the end"},
      {"A())", "column 4:", "the end"},
      {"A(\0)"sv, "column 3:", "byte 0"},
      {"A(\xff)", "column 3:", "byte 255"},
      {"A()\0"sv, "column 4:", "byte 0"},
  };
  for (const Mistake& mistake : mistakes) {
    SCOPED_TRACE(mistake.text);
    expect_error(ErrorKind::malformed, {"parse_module_spec", mistake.column, mistake.wanted},
                 [&] { static_cast<void>(parse_module_spec(mistake.text)); });
  }
}

TEST(ModuleSpec, IsAtMost64LevelsDeep) {
  EXPECT_NO_THROW(static_cast<void>(parse_module_spec(nested(64))));
  expect_error(ErrorKind::malformed, {"64 levels", "column 705"},
               [] { static_cast<void>(parse_module_spec(nested(65))); });
  expect_error(ErrorKind::malformed, {"64 levels"},
               [] { static_cast<void>(parse_module_spec(nested(1'000'000))); });
}

TEST(MakeModule, ReadsWhatSpecWrites) {
  const std::string text =
      "Sequential(Conv2d(1, 2, 3, 1, 0), MaxPool2d(2, 2), Dropout2d(0.25), Flatten(), Linear(6, "
      "4), "
      "Sequential(ReLU(), Linear(4, 2), Tanh(), Sigmoid(), Dropout(0.5)), Embedding(4, 3), "
      "Embedding(4, 3, 1), EmbeddingBag(4, 3, 1, 0), Sequential())";
  Generator generator(1);
  EXPECT_EQ(make_module(text, generator)->spec(), text);
}

TEST(MakeModule, DrawsFromTheGeneratorInTheDtypeAsked) {
  Generator first(2), second(2);
  const auto made = make_module("Sequential(Linear(3, 2), Linear(2, 1))", first, DType::f64);
  const Linear built(3, 2, second, DType::f64);
  EXPECT_EQ(made->state_dict().at("0.weight").dtype(), DType::f64);
  EXPECT_TRUE(equal(made->state_dict().at("0.weight"), built.state_dict().at("weight")));
}

TEST(MakeModule, RefusesUnknownNamesAndArgumentsThatDoNotFit) {
  const auto make = [](const char* text) {
    Generator generator(1);
    static_cast<void>(make_module(text, generator));
  };
  expect_error(kMisuse, {"GELU", "ReLU", "register_module_factory"}, [&] { make("GELU()"); });
  expect_error(kMisuse, {"Linear takes 2", "given 1"}, [&] { make("Linear(3)"); });
  expect_error(kMisuse, {"Linear takes 2"}, [&] { make("Linear(3, 4, ReLU())"); });
  expect_error(kMisuse, {"Linear", "0"}, [&] { make("Sequential(Linear(0, 4))"); });
  expect_error(kMisuse, {"ReLU takes 0"}, [&] { make("ReLU(1)"); });
  expect_error(kMisuse, {"Flatten takes 0"}, [&] { make("Flatten(ReLU())"); });
  expect_error(kMisuse, {"Sequential takes 0"}, [&] { make("Sequential(1, ReLU())"); });
}

TEST(MakeModule, LearnsNewNamesOnce) {
  const ModuleFactory factory = [](const ModuleSpec& spec, Generator& generator, DType dtype) {
    return std::make_shared<Linear>(spec.numbers.at(0), spec.numbers.at(0), generator, dtype);
  };
  EXPECT_TRUE(register_module_factory("Square", factory));
  Generator generator(1);
  EXPECT_EQ(make_module("Square(3)", generator)->spec(), "Linear(3, 3)");
  expect_error(kMisuse, {"'Square'", "already"},
               [&] { register_module_factory("Square", factory); });
  expect_error(kMisuse, {"'Empty'"}, [] { register_module_factory("Empty", nullptr); });
}

}  // namespace
}  // namespace shoal::autograd
