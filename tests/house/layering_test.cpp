#include "house/layering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace shoal::house {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = SHOAL_SOURCE_DIR;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in) << file;
  return {std::istreambuf_iterator<char>(in), {}};
}

bool in_tree(const std::string& path) { return fs::is_regular_file(kRoot / path); }

std::vector<Source> sources_of_the_tree() {
  std::vector<Source> sources;
  for (const char* folder : {"runtime", "autograd", "optim", "tools"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      sources.push_back({fs::relative(entry.path(), kRoot).string(), text_of(entry.path())});
    }
  }
  return sources;
}

TEST(Layering, HoldsInTheTree) {
  const auto sources = sources_of_the_tree();
  EXPECT_GT(sources.size(), 40U) << "is this the tree?";
  for (const Source& source : sources) {
    for (const std::string& violation : violations(source, in_tree)) ADD_FAILURE() << violation;
  }
}

TEST(Layering, TheUmbrellaCoversEveryPublicHeaderAndNoOther) {
  const auto umbrella = text_of(kRoot / "optim/shoal.h");
  std::size_t count = 0;
  for (const std::string folder : {"runtime", "autograd", "optim"}) {
    const auto headers = public_headers(text_of(kRoot / folder / "CMakeLists.txt"));
    EXPECT_FALSE(headers.empty()) << folder;
    count += headers.size();
    for (const std::string& header : headers) {
      const auto line = "#include \"shoal/" + folder + "/" + header + "\"\n";
      EXPECT_NE(umbrella.find(line), std::string::npos) << "optim/shoal.h lacks " << line;
    }
  }
  std::size_t lines = 0;
  for (auto at = umbrella.find("#include"); at != std::string::npos;
       at = umbrella.find("#include", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, count) << "optim/shoal.h includes headers that are not public";
}

// What an outsider gets must be complete: a public header that includes a private one is not.
TEST(Layering, PublicHeadersIncludeOnlyPublicHeaders) {
  std::vector<std::string> all;
  for (const std::string folder : {"runtime", "autograd", "optim"}) {
    for (const auto& header : public_headers(text_of(kRoot / folder / "CMakeLists.txt"))) {
      all.push_back(folder + "/" + header);
    }
  }
  for (const std::string& header : all) {
    std::ifstream in(kRoot / header);
    for (std::string line; std::getline(in, line);) {
      const std::string prefix = "#include \"shoal/";
      if (!line.starts_with(prefix)) continue;
      const auto included = line.substr(prefix.size(), line.rfind('"') - prefix.size());
      EXPECT_NE(std::ranges::find(all, included), all.end())
          << header << " includes " << included << ", which is not installed";
    }
  }
}

// --- The checker itself: what it must refuse, and what it must let pass.

std::vector<std::string> check(const std::string& path, const std::string& text) {
  return violations({path, text}, [](const std::string& included) {
    return included.find("missing") == std::string::npos;
  });
}

struct Case {
  const char* path;
  const char* text;
};

TEST(Layering, RefusesWithFileAndLine) {
  const std::vector<Case> cases{
      {"runtime/base/a.h", "#include \"shoal/runtime/tensor/tensor.h\""},
      {"runtime/shm/a.h", "#include \"shoal/runtime/device/device.h\""},
      {"runtime/device/a.h", "#include \"shoal/runtime/shm/segment.h\""},
      {"runtime/io/a.cpp", "#include \"shoal/runtime/ipc/channel.h\""},
      {"runtime/process/a.h", "#include \"shoal/autograd/module.h\""},
      {"runtime/ipc/a.h", "  #  include \"shoal/runtime/process/launch.h\""},
      {"autograd/a.h", "#include \"shoal/optim/sgd.h\""},
      {"autograd/a.h", "#include \"shoal/runtime/process/launch.h\""},
      {"autograd/a.h", "#include \"shoal/runtime/ipc/channel.h\""},
      {"autograd/a.h", "#include \"shoal/shoal.h\""},
      {"optim/a.h", "#include \"shoal/tools/train.h\""},
      {"optim/a.h", "#include \"shoal/tests/support/x.h\""},
      {"optim/a.h", "#include \"shoal/optim/missing.h\""},
      {"optim/a.h", "#include \"shoal/shoal.h\""},
      {"optim/a.h", "#include \"sgd.h\""},
      {"optim/a.h", "#include <shoal/optim/sgd.h>"},
      {"runtime/tensor/ops.cpp", "#include <Eigen/Core>"},
      {"runtime/ipc/a.cpp", "#include <boost/interprocess/mapped_region.hpp>"},
      {"autograd/a.cpp", "#include <nlohmann/json.hpp>"},
      {"optim/a.cpp", "#include <CLI/CLI.hpp>"},
      {"optim/a.cpp", "#include <zlib.h>"},
      {"optim/a.cpp", "#include <spdlog/spdlog.h>"},
      {"tools/a.cpp", "#include <benchmark/benchmark.h>"},
  };
  for (const Case& bad : cases) {
    const auto found = check(bad.path, std::string("// first\n") + bad.text);
    ASSERT_EQ(found.size(), 1U) << bad.path << " with " << bad.text;
    EXPECT_TRUE(found[0].starts_with(std::string(bad.path) + ":2: ")) << found[0];
  }
}

TEST(Layering, IsSilentAboutWhatIsAllowed) {
  const std::vector<Case> cases{
      {"runtime/base/a.cpp", "#include \"shoal/runtime/base/a.h\""},
      {"runtime/tensor/a.h", "#include \"shoal/runtime/shm/segment.h\""},
      {"autograd/a.h", "#include \"shoal/runtime/io/safetensors.h\""},
      {"optim/a.h", "#include \"shoal/runtime/process/launch.h\""},
      {"tools/a.cpp", "#include \"shoal/shoal.h\""},
      {"tools/a.cpp", "#include <CLI/CLI.hpp>\n#include <nlohmann/json.hpp>"},
      {"runtime/shm/a.cpp", "#include <sys/mman.h>\n#include <vector>"},
      {"runtime/shm/a.cpp", "#include <boost/interprocess/mapped_region.hpp>"},
      {"runtime/tensor/eigen_map.h", "#include <Eigen/Core>"},
      {"runtime/base/a.cpp", "// #include \"shoal/optim/sgd.h\""},
  };
  for (const Case& good : cases) {
    EXPECT_EQ(check(good.path, good.text), std::vector<std::string>{});
  }
}

TEST(Layering, RefusesAFolderItDoesNotKnow) {
  EXPECT_EQ(check("runtime/misc/a.h", "").size(), 1U);
  EXPECT_EQ(check("runtime/tensors.h", "").size(), 1U);
}

TEST(Layering, RefusesAFileOfTwoIdeas) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "\n";
  EXPECT_TRUE(check("optim/a.h", text).empty());
  EXPECT_EQ(check("optim/a.h", text + "\n").size(), 1U);
}

TEST(Layering, ReadsPublicHeadersFromCMake) {
  EXPECT_EQ(public_headers("shoal_library(x\n SOURCES a.cpp\n HEADERS a.h\n  b/c.h)\nset(y z)"),
            (std::vector<std::string>{"a.h", "b/c.h"}));
}

}  // namespace
}  // namespace shoal::house
