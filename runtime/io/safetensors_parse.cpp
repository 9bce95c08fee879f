#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/io/quoted.h"
#include "shoal/runtime/io/safetensors_header.h"

namespace shoal {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(ErrorKind kind, const std::string& path, std::string reason) {
  throw Error(
      {.kind = kind, .call = "load_safetensors", .subject = path, .reason = std::move(reason)});
}

// Takes the header as it is parsed, word by word. A parsed document would keep the last of several
// equal names without a word, and cost many times the header's size.
//
//   depth 1: {"name": …}   depth 2: {"dtype": …} or metadata   depth 3: [numbers]
class HeaderBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderBuilder(const std::string& path) : path_(path) {}

  [[nodiscard]] SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t /*size*/) override {
    if (depth_ > 1) refuse_here("an object");
    if (++depth_ == 2) {
      in_metadata_ = name_ == kSafetensorsMetadata;
      dtype_.reset();
      shape_.reset();
      offsets_.clear();
      seen_.clear();
    }
    return true;
  }

  bool key(std::string& key) override {
    if (depth_ == 1) {
      if (!names_.insert(key).second) fail(concat(quoted_for_message(key), " is given twice"));
      name_ = std::move(key);
      return true;
    }
    if (in_metadata_ ? header_.metadata.contains(key) : !seen_.insert(key).second)
      fail(concat(where(), quoted_for_message(key), " is given twice"));
    if (!in_metadata_ && key != "dtype" && key != "shape" && key != "data_offsets")
      fail(concat(where(), quoted_for_message(key),
                  " is none of \"dtype\", \"shape\", \"data_offsets\""));
    field_ = std::move(key);
    return true;
  }

  bool string(std::string& value) override {
    if (depth_ == 2 && in_metadata_) {
      header_.metadata.emplace(field_, std::move(value));
      return true;
    }
    if (depth_ != 2 || field_ != "dtype") refuse_here("text");
    dtype_ = dtype_of_safetensors(value);
    if (!dtype_)
      refuse(ErrorKind::unsupported, path_,
             concat(where(), "dtype ", quoted_for_message(value),
                    " is none of F32 F64 F16 BF16 I8 U8 I16 I32 I64 BOOL"));
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (depth_ != 2 || in_metadata_ || field_ == "dtype") refuse_here("a list");
    if (field_ == "shape") shape_.emplace();
    ++depth_;
    return true;
  }

  bool number_unsigned(std::uint64_t number) override {
    if (depth_ != 3) refuse_here("a number");
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      fail(concat(where(), field_, " holds ", number, ", which is too large"));
    if (field_ == "data_offsets") {
      if (offsets_.size() == 2) fail(concat(where(), "data_offsets holds more than two numbers"));
      offsets_.push_back(number);
      return true;
    }
    if (shape_->rank() == kMaxRank)
      refuse(ErrorKind::unsupported, path_,
             concat(where(), "has more axes than the ", kMaxRank, " that a tensor may have"));
    shape_->push_back(static_cast<std::int64_t>(number));
    return true;
  }

  bool end_array() override {
    --depth_;
    return true;
  }

  bool end_object() override {
    if (--depth_ != 1 || in_metadata_) return true;
    if (!dtype_ || !shape_ || offsets_.size() != 2)
      fail(concat(where(), "lacks ",
                  !dtype_   ? "its dtype"
                  : !shape_ ? "its shape"
                            : "one of its two data_offsets"));
    header_.entries.push_back({.name = name_,
                               .dtype = *dtype_,
                               .shape = *shape_,
                               .begin = offsets_[0],
                               .end = offsets_[1]});
    return true;
  }

  bool null() override { refuse_here("null"); }
  bool boolean(bool /*value*/) override { refuse_here("a truth value"); }
  bool number_integer(std::int64_t /*value*/) override { refuse_here("a negative number"); }
  bool number_float(double /*value*/, const std::string& text) override {
    refuse_here(concat("the number ", quoted_for_message(text)));
  }
  bool binary(Json::binary_t& /*value*/) override { refuse_here("binary data"); }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    fail(concat("the header is no JSON in UTF-8 at its byte ", position));
  }

 private:
  [[noreturn]] void fail(std::string reason) const {
    refuse(ErrorKind::malformed, path_, std::move(reason));
  }
  [[noreturn]] void refuse_here(std::string_view what) const {
    if (depth_ == 0) fail(concat("the header is ", what, ", an object is expected"));
    fail(concat(where(), depth_ > 1 ? quoted_for_message(field_) + " " : "", "holds ", what,
                " where the format has something else"));
  }
  [[nodiscard]] std::string where() const { return concat(quoted_for_message(name_), ": "); }

  const std::string& path_;
  SafetensorsHeader header_;
  std::set<std::string> names_;
  int depth_ = 0;

  // The member of the header that is being read, and its field.
  std::string name_, field_;
  bool in_metadata_ = false;
  std::set<std::string> seen_;
  std::optional<DType> dtype_;
  std::optional<Shape> shape_;
  std::vector<std::uint64_t> offsets_;
};

std::uint64_t nbytes_of(const SafetensorsEntry& entry, const std::string& path) {
  try {
    return static_cast<std::uint64_t>(numel(entry.shape)) * item_size(entry.dtype);
  } catch (const Error& error) {
    refuse(ErrorKind::malformed, path,
           concat(quoted_for_message(entry.name), ": ", error.reason()));
  }
}

void check_layout(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_nbytes,
                  const std::string& path) {
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    const auto fail = [&](const auto&... reason) {
      refuse(ErrorKind::malformed, path,
             concat(quoted_for_message(entry.name), " at [", entry.begin, ", ", entry.end,
                    "]: ", reason...));
    };
    if (entry.begin > entry.end) fail("ends before it begins");
    if (entry.end > data_nbytes) fail("reaches beyond the file's ", data_nbytes, " bytes of data");
    if (entry.begin < end) fail("overlaps another tensor, which ends at ", end);
    if (entry.begin > end) fail("leaves a hole behind ", end);
    if (const auto nbytes = nbytes_of(entry, path); nbytes != entry.end - entry.begin)
      fail("shape ", entry.shape, " of ", to_string(entry.dtype), " needs ", nbytes, " bytes");
    end = entry.end;
  }
  if (end != data_nbytes)
    refuse(ErrorKind::malformed, path,
           concat("the tensors end at ", end, " of ", data_nbytes, " bytes of data"));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_nbytes,
                                           const std::string& path) {
  // The parser would skip a byte order mark, and take a zero byte for the end of the text.
  if (text.empty() || text.front() != '{')
    refuse(ErrorKind::malformed, path, "the header does not begin with '{'");
  if (const auto zero = text.find('\0'); zero != text.npos)
    refuse(ErrorKind::malformed, path, concat("the header has a zero byte at ", zero));
  HeaderBuilder builder(path);
  (void)Json::sax_parse(text, &builder);
  SafetensorsHeader header = builder.take();
  // Empty tensors before others that begin at the same place.
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_layout(header.entries, data_nbytes, path);
  return header;
}

}  // namespace shoal
