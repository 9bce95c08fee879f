#include <cxxabi.h>
#include <dlfcn.h>

#include <typeinfo>

#include "shoal/runtime/process/throw_trace.h"

// In a program that is linked with it this stands before the C++ runtime's own function, which it
// goes on to.
extern "C" void __cxxabiv1::__cxa_throw(void* exception, std::type_info* type,
                                        void (*destroy)(void*)) {
  using Throw = void (*)(void*, std::type_info*, void (*)(void*));
  static const auto next = reinterpret_cast<Throw>(::dlsym(RTLD_NEXT, "__cxa_throw"));
  shoal::note_throw(exception, type);
  next(exception, type, destroy);
  __builtin_unreachable();
}
