#include <charconv>
#include <string>

#include "shoal/autograd/module_spec.h"
#include "shoal/runtime/base/error.h"

// The text of a module, taken apart; module_spec.cpp builds from it.
namespace shoal::autograd {
namespace {

constexpr int kDeepest = 64;

// spec = name "(" [ argument { "," argument } ] ")"; argument = integer | real | spec; blanks
// anywhere between. One function for each rule; `depth` bounds how deep they call each other, since
// the text may come from anybody.
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
    ModuleSpec result{.name = name(), .numbers = {}, .modules = {}};
    if (!accept('(')) fail("'('");
    if (accept(')')) return result;
    do {
      if (is_number()) {
        number(result);
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

  void number(ModuleSpec& result) {
    std::size_t digits = at_ + (peek() == '-' ? 1 : 0);
    while (digits < text_.size() && is_digit(text_[digits])) ++digits;
    const bool is_real = digits < text_.size() &&
                         std::string_view(".eE").find(text_[digits]) != std::string_view::npos;
    if (is_real) {
      result.reals.push_back(read<double>("a finite number"));
    } else {
      result.numbers.push_back(read<std::int64_t>("an integer of 64 bits"));
    }
  }

  template <class T>
  T read(std::string_view wanted) {
    T value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail(wanted);
    at_ = static_cast<std::size_t>(end - text_.data());
    skip_blanks();
    return value;
  }

  bool is_number() {
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

}  // namespace

ModuleSpec parse_module_spec(std::string_view text) { return Parser(text).whole(); }

}  // namespace shoal::autograd
