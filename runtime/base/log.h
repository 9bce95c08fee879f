#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

// Where Shoal says what it did on its own account. It says little: what went wrong is thrown.
namespace shoal {

enum class LogLevel : std::uint8_t {
  info,     // something was done that the host may want to know
  warning,  // it goes on, but not as it should
  error,    // something failed where nothing could be thrown, as in a destructor
};

[[nodiscard]] std::string_view to_string(LogLevel level);

// Takes one message without a line end. It is called on the thread that has something to say, by
// several threads at once, and in forked children. It may itself log, and set another callback.
using LogCallback = std::function<void(LogLevel, std::string_view)>;

// Sends all further messages of this process to `callback`; an empty one brings back the default,
// which writes warnings and errors to standard error and drops the rest. Any thread may call it.
//
// A callback that is replaced is kept and not destroyed, for another thread may be in it. So set
// one at the start rather than around each call.
void set_log_callback(LogCallback callback);

// Hands `message` to the callback. One that throws counts as one that had nothing to say.
void log_message(LogLevel level, std::string_view message) noexcept;

}  // namespace shoal
