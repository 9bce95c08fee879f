#include "house/layering.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>

namespace shoal::house {
namespace {

constexpr int kMaxLines = 400;

struct Layer {
  std::string_view folder;
  int height;
};

// A file includes its own layer and lower ones. Two of one height do not know each other.
constexpr std::array kLayers{
    Layer{"tools", 10},         Layer{"optim", 9},           Layer{"autograd", 8},
    Layer{"runtime/comm", 7},   Layer{"runtime/process", 6}, Layer{"runtime/ipc", 5},
    Layer{"runtime/io", 4},     Layer{"runtime/tensor", 3},  Layer{"runtime/shm", 2},
    Layer{"runtime/device", 2}, Layer{"runtime/base", 1},
};

// autograd is above them and still does not know that processes exist.
constexpr std::array<std::string_view, 3> kAboutProcesses{"runtime/comm", "runtime/process",
                                                          "runtime/ipc"};

struct Guest {
  std::string_view prefix;  // of what stands between < and >
  std::vector<std::string_view> hosts;
};

// Headers that are neither the standard library's nor the system's, and who may include them.
const std::vector<Guest>& guests() {
  static const std::vector<Guest> all{
      {"Eigen/", {"runtime/device/", "runtime/tensor/eigen_map.h"}},
      {"boost/stacktrace.hpp", {"runtime/process/"}},
      {"boost/", {"runtime/shm/", "tools/"}},
      {"dlpack/", {"runtime/tensor/dlpack.cpp"}},
      {"nlohmann/", {"runtime/io/", "tools/"}},
      {"zlib.h", {"runtime/io/"}},
      {"CLI/", {"bench/", "tools/"}},
      {"prometheus/", {"tools/"}},
      {"spdlog/", {"tools/"}},
      {"systemd/", {"tools/"}},
  };
  return all;
}

// The folders that the system's and the compiler's own headers come in.
constexpr std::array<std::string_view, 7> kSystemFolders{"sys/", "linux/", "netinet/",  "arpa/",
                                                         "asm/", "bits/",  "sanitizer/"};

const Layer* layer_of(std::string_view path) {
  const auto found = std::ranges::find_if(kLayers, [&](const Layer& layer) {
    return path.starts_with(layer.folder) && path.substr(layer.folder.size()).starts_with('/');
  });
  return found == kLayers.end() ? nullptr : &*found;
}

// Where "shoal/…" lies in the tree; the umbrella is the one header that lies elsewhere.
std::string path_of(std::string_view spelling) {
  constexpr std::string_view kPrefix = "shoal/";
  if (spelling == "shoal/shoal.h") return "optim/shoal.h";
  return std::string(spelling.substr(kPrefix.size()));
}

std::optional<std::string> own_header_violation(
    const std::string& path, const Layer& layer, const std::string& spelling,
    const std::function<bool(const std::string&)>& exists) {
  if (!spelling.starts_with("shoal/")) return "is not spelled \"shoal/…\"";
  const std::string target = path_of(spelling);
  if (!exists(target)) return "does not exist";
  const Layer* other = layer_of(target);
  if (other == nullptr) return "belongs to no layer";
  const bool own = other->folder == layer.folder;
  if (!own && other->height >= layer.height) {
    return std::string(layer.folder) + " is not above " + std::string(other->folder);
  }
  if (layer.folder == "autograd" && std::ranges::count(kAboutProcesses, other->folder) != 0) {
    return "autograd does not know that processes exist";
  }
  if (target == "optim/shoal.h" && path.starts_with("optim/")) return "the umbrella is for users";
  return std::nullopt;
}

std::optional<std::string> foreign_header_violation(const std::string& path,
                                                    const std::string& spelling) {
  if (spelling.starts_with("shoal/")) return "stands between <>: the library's own go between \"\"";
  for (const Guest& guest : guests()) {
    if (!spelling.starts_with(guest.prefix)) continue;
    const bool welcome = std::ranges::any_of(
        guest.hosts, [&](std::string_view host) { return path.starts_with(host); });
    if (welcome) return std::nullopt;
    return std::string(guest.prefix) + " is not for this folder";
  }
  const bool system = std::ranges::any_of(
      kSystemFolders, [&](std::string_view folder) { return spelling.starts_with(folder); });
  if (!system && (spelling.find('/') != std::string::npos || spelling.ends_with(".hpp"))) {
    return "is of a library that layering.cpp does not list";
  }
  return std::nullopt;
}

struct Include {
  bool angled;
  std::string spelling;
};

// Of a line `#include "…"` or `#include <…>`, with blanks wherever the language lets them be.
std::optional<Include> parse_include(std::string_view line) {
  const auto skip_blanks = [&] {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  };
  for (const std::string_view word : {"#", "include"}) {
    skip_blanks();
    if (!line.starts_with(word)) return std::nullopt;
    line.remove_prefix(word.size());
  }
  skip_blanks();
  if (!line.starts_with('"') && !line.starts_with('<')) return std::nullopt;
  const bool angled = line.front() == '<';
  line.remove_prefix(1);
  return Include{angled, std::string(line.substr(0, line.find(angled ? '>' : '"')))};
}

}  // namespace

std::vector<std::string> violations(const Source& source,
                                    const std::function<bool(const std::string& path)>& exists) {
  const Layer* layer = layer_of(source.path);
  if (layer == nullptr) return {source.path + ": lies in no folder that layering.cpp lists"};

  std::vector<std::string> found;
  std::istringstream lines(source.text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto include = parse_include(line);
    if (!include) continue;
    const auto& spelling = include->spelling;
    const auto reason = include->angled
                            ? foreign_header_violation(source.path, spelling)
                            : own_header_violation(source.path, *layer, spelling, exists);
    if (reason) {
      found.push_back(source.path + ":" + std::to_string(number) + ": " + spelling + " " + *reason);
    }
  }
  if (number > kMaxLines) {
    found.push_back(source.path + ": " + std::to_string(number) + " lines; a file of over " +
                    std::to_string(kMaxLines) + " is two ideas");
  }
  return found;
}

std::vector<std::string> public_headers(std::string_view cmake_lists) {
  std::vector<std::string> headers;
  std::istringstream words{std::string(cmake_lists)};
  bool listing = false;
  for (std::string word; words >> word;) {
    if (!listing) {
      listing = word == "HEADERS";
      continue;
    }
    const auto end = word.find(')');
    if (end != 0) headers.push_back(word.substr(0, end));
    listing = end == std::string::npos;
  }
  return headers;
}

}  // namespace shoal::house
