#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/io/npy_header.h"
#include "shoal/runtime/io/quoted.h"

namespace shoal {
namespace {

// Of a dtype like '<f4': the order of the bytes, then the kind and size of an item.
void read_dtype(const std::string& descr, NpyHeader& header, const std::string& path) {
  const auto refuse = [&](std::string reason, std::string remedy) {
    throw Error({.kind = ErrorKind::unsupported,
                 .call = "load_npy",
                 .subject = path,
                 .reason = std::move(reason),
                 .remedy = std::move(remedy)});
  };
  if (descr.find('O') != descr.npos)
    refuse("holds Python objects, which are never unpickled", "Save an array of numbers");
  const std::string_view order = std::string_view(descr).substr(0, 1);
  const std::string_view name = std::string_view(descr).substr(order.size());
  for (std::uint64_t number = 0; number < kDTypeCount && !name.empty(); ++number) {
    const DType dtype = *dtype_from_wire(number);
    const bool ordered = order == "<" || order == ">" || order == "=";
    if (name != npy_name_of(dtype) || !(ordered || (order == "|" && item_size(dtype) == 1)))
      continue;
    header.dtype = dtype;
    header.big_endian = order == ">";
    return;
  }
  refuse(concat("dtype ", quoted_for_message(descr),
                " is none of f4 f8 f2 i1 u1 i2 i4 i8 b1 with its byte order"),
         "Convert it in NumPy by astype");
}

// A literal of a dict of the three keys, and of nothing else that Python could read there.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyHeader parse() {
    bool descr = false, fortran_order = false, shape = false;
    const auto once = [&](bool& seen, const std::string& key) {
      if (seen) fail(ErrorKind::malformed, concat(quoted_for_message(key), " is given twice"));
      seen = true;
    };
    expect('{');
    for (bool comma = true; !take('}'); comma = take(',')) {
      if (!comma) miss("',' or '}'");
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        once(descr, key);
        read_descr();
      } else if (key == "fortran_order") {
        once(fortran_order, key);
        header_.fortran_order = truth();
      } else if (key == "shape") {
        once(shape, key);
        header_.shape = tuple();
      } else {
        fail(ErrorKind::malformed, concat("its header has the key ", quoted_for_message(key),
                                          ", which is none of 'descr', 'fortran_order', 'shape'"));
      }
    }
    skip_blanks();
    if (at_ != text_.size()) miss("nothing more");
    for (const auto& [seen, key] :
         {std::pair(descr, "'descr'"), std::pair(fortran_order, "'fortran_order'"),
          std::pair(shape, "'shape'")})
      if (!seen) fail(ErrorKind::malformed, concat("its header lacks ", key));
    return header_;
  }

 private:
  [[noreturn]] void fail(ErrorKind kind, std::string reason, std::string remedy = {}) const {
    throw Error({.kind = kind,
                 .call = "load_npy",
                 .subject = path_,
                 .reason = std::move(reason),
                 .remedy = std::move(remedy)});
  }
  [[noreturn]] void miss(std::string_view what) const {
    fail(ErrorKind::malformed, concat("its header is not the dict that the format wants: byte ",
                                      at_, " should be ", what));
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n\f", at_), text_.size()); }
  // The next character that is no blank; a zero byte, which no literal has, at the end.
  char next() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (next() != wanted) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) miss(concat('\'', wanted, '\''));
  }

  std::string string() {
    const char quote = next();
    if (quote != '\'' && quote != '"') miss("a string");
    const std::size_t begin = at_ + 1;
    const std::size_t end = text_.find_first_of(concat(quote, "\\\n"), begin);
    if (end == text_.npos || text_[end] != quote) miss("a string without escapes");
    at_ = end + 1;
    return std::string(text_.substr(begin, end - begin));
  }

  void read_descr() {
    if (next() == '[' || next() == '(')
      fail(ErrorKind::unsupported, "its elements are records of several fields",
           "Save each field as an array of its own");
    read_dtype(string(), header_, path_);
  }

  bool truth() {
    if (take("True")) return true;
    if (!take("False")) miss("True or False");
    return false;
  }

  Shape tuple() {
    Shape shape;
    bool comma = true;
    for (expect('('); !take(')'); comma = take(',')) {
      if (!comma) miss("',' or ')'");
      const std::int64_t size = number();
      if (shape.rank() == kMaxRank)
        fail(ErrorKind::unsupported,
             concat("has more axes than the ", kMaxRank, " that a tensor may have"));
      shape.push_back(size);
    }
    if (shape.rank() == 1 && !comma)
      fail(ErrorKind::malformed, "its shape is a number, not a tuple, which would have a comma");
    return shape;
  }

  std::int64_t number() {
    if (next() == '-') fail(ErrorKind::malformed, "its shape has a negative size");
    const std::string_view digits = text_.substr(at_);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc::result_out_of_range)
      fail(ErrorKind::malformed, "its shape has a size that is too large");
    if (error != std::errc()) miss("a size");
    at_ += static_cast<std::size_t>(end - digits.data());
    (void)take('L');  // as Python 2 wrote long integers
    return value;
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
  NpyHeader header_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, const std::string& path) {
  return HeaderParser(text, path).parse();
}

}  // namespace shoal
