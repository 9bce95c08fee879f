#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/fd.h"

// Private to this folder.
namespace shoal {

// What workers write, line by line with "[rank] " in front, on this process' own standard output
// and error. A process of its own does it, so that the launcher needs no thread, and what a worker
// wrote before it crashed is not lost. It ends when nobody is left who could write.
class OutputTagger {
 public:
  // For so many workers. Throws Error, as a spawn does.
  explicit OutputTagger(int workers);
  OutputTagger(const OutputTagger&) = delete;
  OutputTagger& operator=(const OutputTagger&) = delete;
  // A process that has not ended by then goes on, and is collected by collect_leftovers.
  ~OutputTagger();

  // What a worker is to have as its standard streams, until close_writing.
  [[nodiscard]] const Fd& output(int rank) const { return at(2 * rank); }
  [[nodiscard]] const Fd& errors(int rank) const { return at(2 * rank + 1); }
  // All workers have theirs: with these open here, nobody would see the end.
  void close_writing() noexcept { writing_.clear(); }
  // Waits until all has been written, but not longer for what a helper that a worker left behind
  // still writes.
  void finish(Deadline deadline) noexcept;
  // Of all earlier ones, those that have ended since.
  static void collect_leftovers() noexcept;

 private:
  [[nodiscard]] const Fd& at(int stream) const {
    return writing_[static_cast<std::size_t>(stream)];
  }
  std::vector<Fd> writing_;  // each worker's output, then its errors
  pid_t owner_;
  Fd process_;
};

// That process: reads from the first descriptor the output of rank 0, from the second its errors,
// and so on. Returns the exit code.
[[nodiscard]] int tag_output(std::vector<Fd> reading);
// Its command line (child_main.cpp).
[[nodiscard]] std::vector<std::string> output_tagger_arguments(const std::vector<Fd>& reading);

}  // namespace shoal
