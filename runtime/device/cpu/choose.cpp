#include <array>
#include <cstdlib>
#include <string_view>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/log.h"
#include "shoal/runtime/device/cpu/cpu_device.h"

// Which instruction set the cpu computes with.
namespace shoal {
namespace {

struct Choice {
  std::string_view name;
  bool (*runs_here)();
  Device* (*make)();
};

bool always() { return true; }
#ifdef SHOAL_CPU_X86
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

// The best first.
constexpr std::array kChoices{
#ifdef SHOAL_CPU_X86
    Choice{"avx512", has_avx512, cpu_avx512::make_device},
    Choice{"avx2", has_avx2, cpu_avx2::make_device},
#endif
    Choice{"baseline", always, cpu_baseline::make_device},
};

const Choice& best() {
  for (const Choice& choice : kChoices)
    if (choice.runs_here()) return choice;
  return kChoices.back();
}

// The program has not come to main yet, so a wish that cannot be had is not refused.
const Choice& choose() {
#ifdef SHOAL_CPU_X86
  __builtin_cpu_init();
#endif
  const char* wanted = std::getenv("SHOAL_CPU");  // NOLINT(concurrency-mt-unsafe): nobody writes
  if (wanted == nullptr || *wanted == '\0') return best();
  std::string known;
  for (const Choice& choice : kChoices) {
    if (!choice.runs_here()) continue;
    if (choice.name == wanted) return choice;
    known.append(known.empty() ? "" : ", ").append(choice.name);
  }
  log_message(LogLevel::warning,
              concat("SHOAL_CPU is '", wanted, "', which is nothing that this machine runs; ",
                     best().name, " is taken. It runs ", known));
  return best();
}

struct Chosen {
  const Choice& choice = choose();
  Device* device = choice.make();  // never deleted: statics may still hold memory of it
};

const Chosen& chosen() {
  static const Chosen instance;
  return instance;
}

// Before there are threads: one that forks while another makes a static has a child that waits.
[[maybe_unused]] const Chosen& made_at_load = chosen();

}  // namespace

Device& cpu() { return *chosen().device; }

std::string_view cpu_instruction_set() { return chosen().choice.name; }

}  // namespace shoal
