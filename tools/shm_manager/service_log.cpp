#include "shoal/tools/shm_manager/service_log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

namespace shoal::tools {
namespace {

// "<6>": the journal takes a line's priority from it (sd-daemon(3)).
class PriorityFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    char digit = '6';
    if (message.level == spdlog::level::debug) digit = '7';
    if (message.level == spdlog::level::warn) digit = '4';
    if (message.level >= spdlog::level::err) digit = '3';
    for (const char c : {'<', digit, '>'}) out.push_back(c);
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PriorityFlag>();
  }
};

}  // namespace

void log_to_standard_error(const std::string& level) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool plain = no_color != nullptr && *no_color != '\0';
  spdlog::set_default_logger(spdlog::stderr_color_st(
      "shm-manager", plain ? spdlog::color_mode::never : spdlog::color_mode::automatic));
  if (std::getenv("JOURNAL_STREAM") != nullptr) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<PriorityFlag>('*').set_pattern("%*%v");
    spdlog::set_formatter(std::move(formatter));
  } else {
    spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %n %^%l%$: %v");
  }
  set_log_level(level);
}

void set_log_level(const std::string& level) { spdlog::set_level(spdlog::level::from_str(level)); }

}  // namespace shoal::tools
