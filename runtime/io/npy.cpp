#include "shoal/runtime/io/npy.h"

#include <array>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/io/element_bytes.h"
#include "shoal/runtime/io/file_replacement.h"
#include "shoal/runtime/io/input_file.h"
#include "shoal/runtime/io/npy_header.h"

namespace shoal {
namespace {

constexpr const char* kSave = "save_npy";
constexpr const char* kLoad = "load_npy";

[[noreturn]] void refuse(ErrorKind kind, const std::string& path, std::string reason,
                         std::string remedy = {}) {
  throw Error({.kind = kind,
               .call = kLoad,
               .subject = path,
               .reason = std::move(reason),
               .remedy = std::move(remedy)});
}

// The file, read in order, and how much of it is left.
struct Reading {
  InputFile in;
  const std::string& path;
  std::uint64_t left;

  explicit Reading(const std::string& name) : in(kLoad, name), path(name), left(in.nbytes()) {}

  void read(std::span<std::byte> bytes, std::string_view what) {
    if (bytes.size() > left)
      refuse(ErrorKind::malformed, path,
             concat("ends within its ", what, ": ", left, " of ", bytes.size(), " bytes are there"),
             "Fetch the file again");
    in.read(bytes);
    left -= bytes.size();
  }
};

// How many bytes the number takes that tells the length of the header.
std::size_t read_version(Reading& file) {
  std::array<char, kNpyMagic.size()> magic{};
  file.read(std::as_writable_bytes(std::span(magic)), "magic");
  const std::string_view found(magic.data(), magic.size());
  if (found.starts_with("PK\x03\x04"))
    refuse(ErrorKind::unsupported, file.path, "is an archive, such as .npz",
           "Unpack it: each member is an .npy file");
  if (found != kNpyMagic)
    refuse(ErrorKind::malformed, file.path, "is no .npy file: it does not begin with \\x93NUMPY");
  std::array<std::uint8_t, 2> version{};
  file.read(std::as_writable_bytes(std::span(version)), "version");
  const auto [major, minor] = version;
  if (major < 1 || major > 3 || minor != 0)
    refuse(ErrorKind::version_mismatch, file.path,
           concat("is of format ", int{major}, '.', int{minor}, "; 1.0, 2.0 and 3.0 are read"));
  return major == 1 ? 2 : 4;
}

NpyHeader read_header(Reading& file) {
  std::uint32_t length = 0;
  const std::size_t length_size = read_version(file);
  file.read(std::as_writable_bytes(std::span(&length, 1)).first(length_size),
            "length of the header");
  if (length > kMaxNpyHeader)
    refuse(ErrorKind::malformed, file.path,
           concat("announces a header of ", length, " bytes; at most ", kMaxNpyHeader,
                  " are accepted"));
  std::string text(length, '\0');
  file.read(std::as_writable_bytes(std::span(text)), "header");
  return parse_npy_header(text, file.path);
}

// Checked to be what is left of the file.
void check_elements(const NpyHeader& header, const Reading& file) {
  std::uint64_t nbytes = 0;
  try {
    nbytes = static_cast<std::uint64_t>(numel(header.shape)) * item_size(header.dtype);
  } catch (const Error& error) {
    refuse(ErrorKind::malformed, file.path, error.reason());
  }
  if (nbytes != file.left)
    refuse(ErrorKind::malformed, file.path,
           concat("has ", file.left, " bytes of elements; shape ", header.shape, " of ",
                  to_string(header.dtype), " needs ", nbytes),
           nbytes > file.left ? "Fetch the file again" : "");
}

}  // namespace

void save_npy(const std::string& path, const Tensor& tensor) {
  const auto require = [&](bool ok, const char* reason) {
    if (!ok)
      throw Error(
          {.kind = ErrorKind::invalid_argument, .call = kSave, .subject = path, .reason = reason});
  };
  require(tensor.defined(), "the tensor is undefined");
  require(&tensor.device() == &cpu(), "the tensor is not in the cpu's memory; copy it there first");
  const std::string header = format_npy_header(tensor.dtype(), tensor.shape(), path);
  FileReplacement out(kSave, path);
  out.write(std::as_bytes(std::span(header)));
  const Tensor dense = tensor.contiguous();
  out.write(bytes_of(dense));
  out.commit();
}

Tensor load_npy(const std::string& path) {
  Reading file(path);
  const NpyHeader header = read_header(file);
  check_elements(header, file);
  Shape stored = header.shape;
  if (header.fortran_order)
    for (int axis = 0; axis < stored.rank(); ++axis)
      stored[axis] = header.shape[stored.rank() - 1 - axis];
  const Tensor tensor = Tensor::empty(stored, header.dtype);
  const auto bytes = bytes_of(tensor);
  file.read(bytes, "elements");
  if (header.big_endian) swap_byte_order(bytes, item_size(header.dtype));
  if (header.dtype == DType::boolean && !are_bools(bytes))
    refuse(ErrorKind::malformed, path, "a bool is neither 0 nor 1");
  return header.fortran_order ? tensor.transpose() : tensor;
}

}  // namespace shoal
