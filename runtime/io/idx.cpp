#include "shoal/runtime/io/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/io/element_bytes.h"
#include "shoal/runtime/io/input_file.h"

namespace shoal {
namespace {

constexpr std::string_view kCall = "read_idx";
constexpr std::size_t kFirstChunk = std::size_t{1} << 20;
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // gzread counts in int

std::optional<DType> dtype_of_code(unsigned code) {
  switch (code) {
    case 0x08:
      return DType::u8;
    case 0x09:
      return DType::i8;
    case 0x0B:
      return DType::i16;
    case 0x0C:
      return DType::i32;
    case 0x0D:
      return DType::f32;
    case 0x0E:
      return DType::f64;
    default:
      return std::nullopt;
  }
}

// The bytes of a plain file, or those that a gzip file unpacks to.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    Fd fd{InputFile(kCall, path).release()};
    file_.reset(::gzdopen(fd.get(), "rb"));
    if (!file_) throw_errno(ENOMEM, concat(kCall, ": gzdopen"), path_);
    (void)fd.release();  // gzclose closes it
  }

  // Fewer bytes than asked for only at the end. That the end is reached is what makes zlib compare
  // the checksum, so a damaged file may be found out as late as there.
  [[nodiscard]] std::size_t read(std::span<std::byte> bytes) {
    std::size_t filled = 0;
    while (filled < bytes.size()) {
      const auto rest = static_cast<unsigned>(std::min(bytes.size() - filled, kMostAtOnce));
      const int count = ::gzread(file_.get(), bytes.data() + filled, rest);
      if (count < 0) fail_reading();
      filled += static_cast<std::size_t>(count);
      if (static_cast<unsigned>(count) < rest) {
        fail_reading();
        break;
      }
    }
    return filled;
  }

  [[noreturn]] void fail(ErrorKind kind, std::string reason, std::string remedy = {}) const {
    throw Error({.kind = kind,
                 .call = std::string(kCall),
                 .subject = path_,
                 .reason = std::move(reason),
                 .remedy = std::move(remedy)});
  }

 private:
  struct Close {
    void operator()(gzFile file) const { ::gzclose_r(file); }
  };

  // Does nothing if the last read just came to the end of a sound file.
  void fail_reading() const {
    const int system_error = errno;
    int code = Z_OK;
    std::string_view text = ::gzerror(file_.get(), &code);
    // zlib puts its own name for the file in front, "<fd:7>: ".
    if (const auto colon = text.find(": "); colon != text.npos) text.remove_prefix(colon + 2);
    if (code == Z_OK || code == Z_STREAM_END) return;
    if (code == Z_ERRNO) throw_errno(system_error, concat(kCall, ": read"), path_);
    if (code == Z_MEM_ERROR) throw_errno(ENOMEM, concat(kCall, ": gzread"), path_);
    if (code == Z_BUF_ERROR)
      fail(ErrorKind::malformed, "the compressed data end early", "Fetch the file again");
    fail(ErrorKind::malformed, concat("the compressed data are damaged: ", text),
         "Fetch the file again");
  }

  std::string path_;
  std::unique_ptr<std::remove_pointer_t<gzFile>, Close> file_;
};

struct Header {
  DType dtype = DType::u8;
  Shape shape{};
  std::size_t nbytes = 0;
};

Header read_header(Reader& in) {
  std::array<std::byte, 4> magic{};
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(magic[i]); };
  if (const auto got = in.read(magic); got < magic.size())
    in.fail(ErrorKind::malformed, concat("ends after ", got, " bytes, within the magic number"));
  if (at(0) != 0 || at(1) != 0)
    in.fail(ErrorKind::malformed, concat("is no IDX file: it begins with the bytes ", at(0), ' ',
                                         at(1), " instead of 0 0"));
  const auto dtype = dtype_of_code(at(2));
  if (!dtype)
    in.fail(ErrorKind::malformed, concat("type code ", at(2),
                                         " is none of 8 (u8), 9 (i8), 11 (i16), "
                                         "12 (i32), 13 (f32), 14 (f64)"));
  const unsigned rank = at(3);
  if (rank == 0) in.fail(ErrorKind::malformed, "has no axes; an IDX file has at least one");
  if (rank > kMaxRank)
    in.fail(ErrorKind::unsupported, concat("has ", rank, " axes, a tensor at most ", kMaxRank));

  Header header{.dtype = *dtype};
  std::array<std::byte, 4 * kMaxRank> sizes{};
  if (const auto got = in.read(std::span(sizes).first(4 * rank)); got < 4 * rank)
    in.fail(ErrorKind::malformed,
            concat("ends after ", 4 + got, " bytes, within the sizes of its ", rank, " axes"));
  for (std::size_t i = 0; i < 4 * rank; i += 4) {
    std::int64_t size = 0;
    for (std::size_t j = i; j < i + 4; ++j)
      size = size << 8 | std::to_integer<std::int64_t>(sizes[j]);
    header.shape.push_back(size);
  }
  try {
    header.nbytes = static_cast<std::size_t>(numel(header.shape)) * item_size(header.dtype);
  } catch (const Error& error) {
    in.fail(ErrorKind::malformed, error.reason());
  }
  return header;
}

// Grows with what was really read: a header of a few bytes can promise more than any machine has.
std::shared_ptr<Storage> read_elements(Reader& in, const Header& header) {
  auto storage = Storage::allocate(std::min(header.nbytes, kFirstChunk));
  for (std::size_t held = 0;;) {
    held += in.read({storage->data() + held, storage->nbytes() - held});
    if (held < storage->nbytes())
      in.fail(ErrorKind::malformed,
              concat("ends after ", held, " bytes of elements; shape ", header.shape, " of ",
                     to_string(header.dtype), " needs ", header.nbytes),
              "Fetch the file again");
    if (held == header.nbytes) return storage;
    auto larger = Storage::allocate(header.nbytes / 2 < held ? header.nbytes : 2 * held);
    larger->device().copy(larger->data(), storage->data(), held);
    storage = std::move(larger);
  }
}

}  // namespace

Tensor read_idx(const std::string& path) {
  Reader in(path);
  const Header header = read_header(in);
  auto storage = read_elements(in, header);
  std::byte extra{};
  if (in.read({&extra, 1}) > 0)
    in.fail(ErrorKind::malformed,
            concat("has bytes left over after the ", header.nbytes, " that shape ", header.shape,
                   " of ", to_string(header.dtype), " needs"));
  swap_byte_order({storage->data(), storage->nbytes()}, item_size(header.dtype));
  return Tensor::over(std::move(storage), header.dtype, header.shape,
                      contiguous_strides(header.shape));
}

}  // namespace shoal
