#pragma once

#include <cstdint>

namespace shoal {

// How many descriptors this process may open, before and after a call.
struct DescriptorLimitChange {
  std::uint64_t was = 0;
  std::uint64_t is = 0;
  std::uint64_t hard = 0;
};

// Raises the soft limit of open descriptors to the hard limit, once in a process: systems start
// programs with 1024, which tensors by descriptor reach soon. Says so on the log, as info; a limit
// that cannot be raised stays as it is, which is no error. Later calls change nothing, so a host
// that lowers the limit afterwards keeps what it set; nor does it ever lower the limit. Any thread
// may call it. Child processes inherit the limit.
//
// Not raised beyond what the kernel takes (fs.nr_open), nor beyond 1,048,576: some programs close
// every descriptor they could have when they start, and some systems say a billion.
//
// A host that calls select(2) must not get descriptors of 1024 and above, which overflow its
// fd_set. SHOAL_RAISE_NOFILE=0 in the environment leaves the limit alone; poll(2) has no such
// bound.
DescriptorLimitChange raise_descriptor_limit();

}  // namespace shoal
