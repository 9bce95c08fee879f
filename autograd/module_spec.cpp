#include "shoal/autograd/module_spec.h"

#include <charconv>
#include <map>
#include <utility>

#include "shoal/autograd/modules.h"
#include "shoal/runtime/base/error.h"

namespace shoal::autograd {
namespace {

constexpr int kDeepest = 64;

// spec = name "(" [ argument { "," argument } ] ")"; argument = integer | spec; blanks anywhere
// between. One function for each rule; `depth` bounds how deep they call each other, since the text
// may come from anybody.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  ModuleSpec whole() {
    ModuleSpec result = spec(1);
    if (at_ < text_.size()) fail("the end");
    return result;
  }

 private:
  ModuleSpec spec(int depth) {
    if (depth > kDeepest) fail(concat("at most ", kDeepest, " levels"));
    ModuleSpec result{name(), {}, {}};
    if (!accept('(')) fail("'('");
    if (accept(')')) return result;
    do {
      if (is_integer()) {
        result.numbers.push_back(integer());
      } else {
        result.modules.push_back(spec(depth + 1));
      }
    } while (accept(','));
    if (!accept(')')) fail("',' or ')'");
    return result;
  }

  std::string name() {
    skip_blanks();
    const std::size_t start = at_;
    if (is_letter(peek()))
      while (is_letter(peek()) || is_digit(peek())) ++at_;
    if (at_ == start) fail("a name");
    std::string found(text_.substr(start, at_ - start));
    skip_blanks();
    return found;
  }

  std::int64_t integer() {
    std::int64_t number = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (error != std::errc()) fail("an integer of 64 bits");
    at_ = static_cast<std::size_t>(end - text_.data());
    skip_blanks();
    return number;
  }

  bool is_integer() {
    skip_blanks();
    return is_digit(peek()) || peek() == '-';
  }

  bool accept(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    skip_blanks();
    return true;
  }

  // NUL at the end, which no rule accepts.
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n') ++at_;
  }

  // In ASCII and without regard to the locale.
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }

  [[noreturn]] void fail(std::string_view wanted) const {
    // Of the text only what is harmless to print.
    std::string found = at_ < text_.size() ? concat("byte ", +static_cast<unsigned char>(peek()))
                                           : std::string("the end");
    if (peek() >= ' ' && peek() <= '~') found = concat("'", peek(), "'");
    throw Error({.kind = ErrorKind::malformed,
                 .call = "parse_module_spec",
                 .subject = concat("column ", at_ + 1),
                 .reason = concat("expected ", wanted, ", found ", found)});
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

void check_arguments(const ModuleSpec& spec, std::size_t numbers, bool takes_modules) {
  check(spec.numbers.size() == numbers && (takes_modules || spec.modules.empty()),
        ErrorKind::invalid_argument, "make_module", spec.name, " takes ", numbers, " integers and ",
        takes_modules ? "any" : "no", " modules, given ", spec.numbers.size(), " and ",
        spec.modules.size());
}

template <class M>
std::shared_ptr<Module> make_plain(const ModuleSpec& spec, Generator&, DType) {
  check_arguments(spec, 0, false);
  return std::make_shared<M>();
}

std::shared_ptr<Module> make_linear(const ModuleSpec& spec, Generator& generator, DType dtype) {
  check_arguments(spec, 2, false);
  return std::make_shared<Linear>(spec.numbers[0], spec.numbers[1], generator, dtype);
}

std::shared_ptr<Module> make_sequential(const ModuleSpec& spec, Generator& generator, DType dtype) {
  check_arguments(spec, 0, true);
  std::vector<std::shared_ptr<Module>> modules;
  for (const ModuleSpec& module : spec.modules)
    modules.push_back(make_module(module, generator, dtype));
  return std::make_shared<Sequential>(std::move(modules));
}

// Written while statics are initialised, only read once threads and workers run.
std::map<std::string, ModuleFactory>& factories() {
  static std::map<std::string, ModuleFactory> instance{{"Flatten", make_plain<Flatten>},
                                                       {"Linear", make_linear},
                                                       {"ReLU", make_plain<ReLU>},
                                                       {"Sequential", make_sequential}};
  return instance;
}

}  // namespace

ModuleSpec parse_module_spec(std::string_view text) { return Parser(text).whole(); }

std::shared_ptr<Module> make_module(const ModuleSpec& spec, Generator& generator, DType dtype) {
  const auto found = factories().find(spec.name);
  if (found == factories().end()) {
    std::string known;
    for (const auto& [name, factory] : factories()) known += " " + name;
    throw Error({.kind = ErrorKind::invalid_argument,
                 .call = "make_module",
                 .subject = spec.name,
                 .reason = "no module is registered by this name, only" + known,
                 .remedy = "Call register_module_factory for it in every program that needs it"});
  }
  return found->second(spec, generator, dtype);
}

std::shared_ptr<Module> make_module(std::string_view text, Generator& generator, DType dtype) {
  return make_module(parse_module_spec(text), generator, dtype);
}

bool register_module_factory(std::string name, ModuleFactory factory) {
  constexpr const char* kCall = "register_module_factory";
  check(factory != nullptr, ErrorKind::invalid_argument, kCall, "no factory for '", name, "'");
  const auto [place, is_new] = factories().emplace(std::move(name), std::move(factory));
  check(is_new, ErrorKind::invalid_argument, kCall, "'", place->first, "' is registered already");
  return true;
}

}  // namespace shoal::autograd
