#include "shoal/runtime/ipc/shared_words.h"

#include <algorithm>
#include <cstring>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/thread_id.h"

namespace shoal {

Tensor make_words(const WordsKind& kind, std::size_t nbytes, SharingStrategy strategy) {
  Tensor tensor = Tensor::zeros_shared({static_cast<std::int64_t>(nbytes)}, DType::u8, strategy);
  const WordsMark mark{.magic = kind.magic, .version = kind.version, .nbytes = nbytes};
  std::memcpy(tensor.data_ptr(), &mark, sizeof mark);
  return tensor;
}

void open_words(const WordsKind& kind, const Tensor& tensor, std::size_t least) {
  const auto need = [&](bool ok, const char* reason) {
    check(ok, ErrorKind::malformed, kind.name, "the tensor is no ", kind.name, ": ", reason);
  };
  need(tensor.defined(), "it is undefined");
  need(&tensor.device() == &cpu(), "it is not in the memory of the cpu");
  need(tensor.dtype() == DType::u8 && tensor.rank() == 1 && tensor.is_contiguous() &&
           tensor.offset() == 0 && tensor.nbytes() >= least,
       "dtype, shape or size differ");
  WordsMark mark{};
  std::memcpy(&mark, tensor.data_ptr(), sizeof mark);
  need(mark.magic == kind.magic, "it contains something else");
  check(mark.version == kind.version, ErrorKind::version_mismatch, kind.name,
        "its layout has version ", mark.version, "; this library knows ", kind.version);
  need(mark.nbytes == tensor.nbytes(), "its size is another than it says");
  need(!tensor.is_read_only(), "it is read-only");
  tensor.share_memory();
}

void sleep_on(const FutexWord& word, std::uint32_t expected, FutexWord& sleepers,
              Deadline deadline) {
  // In one order for all: either ring() sees that somebody sleeps, or the kernel sees here that the
  // word has changed.
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  (void)futex_wait(word, expected, earlier(deadline, in_ms(kLookMs)));
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void ring(const FutexWord& word, const FutexWord& sleepers) noexcept {
  if (sleepers.load(std::memory_order_seq_cst) != 0) futex_wake(word);
}

void SharedText::write(std::string_view text) noexcept {
  const std::size_t size = std::min(text.size(), kMaxBytes);
  for (std::size_t i = 0; i < size; ++i) chars_[i].store(text[i], std::memory_order_relaxed);
  // Release: who reads the size reads the characters.
  nbytes_.store(static_cast<std::uint32_t>(size), std::memory_order_release);
}

std::string SharedText::read() const {
  const std::size_t size =
      std::min<std::size_t>(nbytes_.load(std::memory_order_acquire), kMaxBytes);
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = chars_[i].load(std::memory_order_relaxed);
  return text;
}

Party this_party(const SharedBlock& block) {
  const Slot slot = block.slot();
  const std::uint32_t pid = this_thread().pid;
  // A forked child may have found no slot to be had; then nobody can tell whether it lives.
  const bool known = block.pid_of(slot) == pid;
  return Party{pid} << 32 | (known ? Party{slot} + 1 : 0);
}

bool is_gone(const SharedBlock& block, Party party) {
  const auto slot_and_one = static_cast<std::uint32_t>(party);
  if (slot_and_one == 0 || slot_and_one > kSlots) return false;
  const auto slot = static_cast<Slot>(slot_and_one - 1);
  // A slot that another process has taken since is its first owner's no more.
  return !block.is_alive(slot) || block.pid_of(slot) != pid_of(party);
}

}  // namespace shoal
