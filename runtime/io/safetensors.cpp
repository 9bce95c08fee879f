#include "shoal/runtime/io/safetensors.h"

#include <algorithm>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/io/element_bytes.h"
#include "shoal/runtime/io/file_replacement.h"
#include "shoal/runtime/io/input_file.h"
#include "shoal/runtime/io/quoted.h"
#include "shoal/runtime/io/safetensors_header.h"

namespace shoal {
namespace {

constexpr const char* kSave = "save_safetensors";
constexpr const char* kLoad = "load_safetensors";

using Length = std::uint64_t;  // what the file begins with: the length of its header

void check_saveable(const std::string& name, const Tensor& tensor, const std::string& path) {
  const auto require = [&](bool ok, const char* reason) {
    if (!ok)
      throw Error({.kind = ErrorKind::invalid_argument,
                   .call = kSave,
                   .subject = path,
                   .reason = concat("tensor ", quoted_for_message(name), ' ', reason)});
  };
  require(tensor.defined(), "is undefined");
  require(name != kSafetensorsMetadata, "has the name that the format keeps for metadata");
  require(&tensor.device() == &cpu(), "is not in the cpu's memory; copy it there first");
}

SafetensorsHeader lay_out(const TensorFile& file, const std::string& path) {
  SafetensorsHeader header{.entries = {}, .metadata = file.metadata};
  for (const auto& [name, tensor] : file.tensors) {
    check_saveable(name, tensor, path);
    header.entries.push_back({.name = name, .dtype = tensor.dtype(), .shape = tensor.shape()});
  }
  // Stable: the map has brought the names in order. Large items first keeps all of them aligned.
  std::ranges::stable_sort(header.entries, std::ranges::greater(),
                           [](const auto& entry) { return item_size(entry.dtype); });
  std::uint64_t end = 0;
  for (auto& entry : header.entries) {
    entry.begin = end;
    end += file.tensors.at(entry.name).nbytes();
    entry.end = end;
  }
  return header;
}

[[noreturn]] void refuse(const std::string& path, std::string reason, std::string remedy = {}) {
  throw Error({.kind = ErrorKind::malformed,
               .call = kLoad,
               .subject = path,
               .reason = std::move(reason),
               .remedy = std::move(remedy)});
}

std::string read_header(InputFile& in, const std::string& path) {
  Length length = 0;
  if (in.nbytes() < sizeof length)
    refuse(path, concat("is ", in.nbytes(), " bytes long; the length of its header alone takes 8"));
  in.read(std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxSafetensorsHeader)
    refuse(path,
           concat("announces a header of ", length, " bytes; at most ", kMaxSafetensorsHeader,
                  " are accepted"),
           "Is it a safetensors file?");
  if (length > in.nbytes() - sizeof length)
    refuse(path,
           concat("ends within its header: ", length, " bytes are announced, ",
                  in.nbytes() - sizeof length, " are there"),
           "Fetch the file again");
  std::string text(length, '\0');
  in.read(std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

void save_safetensors(const std::string& path, const TensorFile& file) {
  const SafetensorsHeader header = lay_out(file, path);
  const std::string text = format_safetensors_header(header, path);
  const Length length = text.size();
  FileReplacement out(kSave, path);
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(std::as_bytes(std::span(text)));
  for (const auto& entry : header.entries) {
    const Tensor dense = file.tensors.at(entry.name).contiguous();
    out.write(bytes_of(dense));
  }
  out.commit();
}

TensorFile load_safetensors(const std::string& path) {
  InputFile in(kLoad, path);
  const std::string text = read_header(in, path);
  SafetensorsHeader header =
      parse_safetensors_header(text, in.nbytes() - sizeof(Length) - text.size(), path);
  TensorFile file{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const auto& entry : header.entries) {
    Tensor tensor = Tensor::empty(entry.shape, entry.dtype);
    const auto bytes = bytes_of(tensor);
    in.read(bytes);
    if (entry.dtype == DType::boolean && !are_bools(bytes))
      refuse(path, concat(quoted_for_message(entry.name), ": a BOOL is neither 0 nor 1"));
    file.tensors.emplace(entry.name, std::move(tensor));
  }
  return file;
}

}  // namespace shoal
