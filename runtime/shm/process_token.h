#pragma once

#include <cstdint>

// Proof of life for holders of named memory.
//
// A process that holds named segments owns one token: a file under /dev/shm that it keeps locked.
// The kernel drops the lock when the process ends, however it ends, so anybody can ask whether a
// token's owner lives; a process id could not tell, since ids repeat across namespaces and time.
//
// The lock belongs to the open file, and a descriptor of it travels with every message that names
// segments. So what a sender holds counts as held until its messages are received or dropped, even
// if the sender has ended by then.
//
// Safe from many threads. A forked child starts without a token and gets its own on first use.
namespace shoal {

// Random, never 0.
using TokenId = std::uint64_t;

// This process' token, made on first use. Throws Error if /dev/shm cannot be written.
[[nodiscard]] TokenId my_token();

// The same if there is one already, else 0.
[[nodiscard]] TokenId my_token_if_any() noexcept;

// The descriptor that carries the lock; owned here, good while the process lives.
[[nodiscard]] int my_token_fd();

// Whether anybody holds the token's lock. In doubt (another user's file, a failed call) yes.
[[nodiscard]] bool token_is_alive(TokenId token) noexcept;

// Drops this process' lock, as its end would, and reaps what that leaves orphaned. For a process
// that is about to end; tensors stay readable, but named ones can no longer be sent.
// Runs by itself at a normal exit.
void retire_my_token() noexcept;

}  // namespace shoal
