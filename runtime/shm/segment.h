#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/segment_header.h"
#include "shoal/runtime/shm/sharing_strategy.h"

namespace shoal {

// One kernel object, mapped into this process: a header, then `nbytes` of data.
//
// Its pages are reserved when it is made, so that later access cannot fail; an access through
// data() never raises SIGBUS. Attaching gives no right to destroy: the bytes live until every
// holder, in any process, has let go. Move-only; destruction unmaps, gives back this process' hold,
// and never throws. A forked child may read and write what it inherited, and gives nothing back.
class Segment {
 public:
  // Zeroed memory of at least one byte. Throws Error(no_space) naming what was wanted, what is
  // free, which limit was met and what to do.
  [[nodiscard]] static Segment create(std::size_t nbytes, SharingStrategy strategy);

  // Attaches a received descriptor. It is accepted only if it is sealed against resizing and its
  // header fits it and `expected`: Error(malformed) or Error(version_mismatch) otherwise.
  [[nodiscard]] static Segment attach(Fd memory, const SegmentId& expected);

  // Attaches a named segment on behalf of a message: takes over the hold that the message carries
  // under its sender's token. Throws Error(not_found) if the name is gone.
  [[nodiscard]] static Segment attach(const SegmentId& expected, TokenId sender);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  [[nodiscard]] std::byte* data() const;
  [[nodiscard]] std::size_t nbytes() const;
  [[nodiscard]] SegmentId id() const;
  [[nodiscard]] SharingStrategy strategy() const;

  // file_descriptor: what a message carries. Owned here.
  [[nodiscard]] int fd() const { return memory_.get(); }
  // file_system: the name under /dev/shm.
  [[nodiscard]] std::string name() const;

  // file_system: a hold for a message about to be sent, and back if it was not sent or if its
  // receiver already has the segment. Throws Error(limit_reached) when the ledger is full.
  void hold_for_message();
  void release_message_hold(TokenId sender) noexcept;

  // file_system: a message has brought a segment that this process has mapped. Its hold becomes
  // this process' own if it has none, as in a forked child, and is given back otherwise.
  void accept_message_hold(TokenId sender);

 private:
  class Mapping;
  Segment(std::unique_ptr<Mapping> mapping, Fd memory);
  [[nodiscard]] Ledger ledger() const;
  // A child forked from the holder comes to hold on its own account.
  void hold();
  void release() noexcept;

  std::unique_ptr<Mapping> mapping_;
  Fd memory_;           // file_descriptor only: kept, to be sent
  TokenId holder_ = 0;  // file_system only: the token that our row carries
};

}  // namespace shoal
