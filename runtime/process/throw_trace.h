#pragma once

#include <string>
#include <typeinfo>

// Where a worker's exception came from. Private to this folder, but for the hook: a program that is
// linked with Shoal::throw_trace calls it at each throw.
namespace shoal {

// Remembers the calls that led here, if this thread's throws are wanted.
void note_throw(const void* exception, const std::type_info* type) noexcept;

// While one lives, this thread's throws are remembered.
class ThrowTraces {
 public:
  ThrowTraces() noexcept;
  ThrowTraces(const ThrowTraces&) = delete;
  ThrowTraces& operator=(const ThrowTraces&) = delete;
  ~ThrowTraces();
};

// The calls that led to the throw of an exception just caught, one a line, if it was the last one
// thrown. Empty otherwise, and without the hook. `exception` is its most derived object,
// of this type.
[[nodiscard]] std::string describe_throw(const void* exception, const std::type_info& type);

}  // namespace shoal
