#!/usr/bin/env python3
"""The work of sharing_bench in PyTorch, at its best, as JSON: one row a line, named as there.

A row is the median of several samples, each the mean of many runs. Where PyTorch has two ways of
doing the same, or two start methods for the other process, the row is the faster one.
"""

import statistics
import time

from rows import Rows  # before torch: it sets what torch reads when loaded

import torch
import torch.multiprocessing as multiprocessing

SIZES = {
    "4B": 4,
    "4KiB": 4 << 10,
    "64KiB": 64 << 10,
    "1MiB": 1 << 20,
    "16MiB": 16 << 20,
    "64MiB": 64 << 20,
    "256MiB": 256 << 20,
}
CREATE_SIZES = ("4B", "4KiB", "64KiB", "1MiB", "16MiB", "64MiB", "256MiB")
SHARE_SIZES = ("4KiB", "64KiB", "1MiB", "16MiB", "64MiB")
ROUND_TRIP_SIZES = ("4B", "1MiB", "64MiB")
STRATEGIES = ("file_descriptor", "file_system")
START_METHODS = ("fork", "spawn")
PAGE_BYTES = 4096
SAMPLES = 5
BATCH = 16  # tensors that are read while as many are made


# --- Measuring. A function `work(runs)` does something so often, and returns the seconds it took.


def loop(once):
    """Work that counts as a whole."""

    def work(runs):
        start = time.perf_counter()
        for _ in range(runs):
            once()
        return time.perf_counter() - start

    return work


def timed_part(prepare, timed):
    """Work of which only `timed`, called with what `prepare` made, counts."""

    def work(runs):
        seconds = 0.0
        for _ in range(runs):
            made = prepare()
            start = time.perf_counter()
            timed(made)
            seconds += time.perf_counter() - start
        return seconds

    return work


def measure(work, seconds):
    """Nanoseconds for one run."""
    work(1)  # warm
    once = max(work(1), 1e-9)
    runs = max(1, int(seconds / SAMPLES / once))
    # What is so slow that it would be run once a sample has two samples at least.
    samples = min(SAMPLES, max(2, int(seconds / once)))
    return statistics.median(work(runs) / runs * 1e9 for _ in range(samples))


# --- Within one process.


def touch(tensor):
    # One page: an assignment is quicker than a view.
    if tensor.numel() <= PAGE_BYTES:
        tensor[0] = 1
    else:
        tensor[::PAGE_BYTES] = 1


def create_and_share(nbytes):
    touch(torch.empty(nbytes, dtype=torch.uint8).share_memory_())


def create_in_shared(nbytes):
    touch(new_shared(nbytes))


def new_shared(nbytes):
    storage = torch.UntypedStorage._new_shared(nbytes)
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def add_memory_rows(add):
    for strategy in STRATEGIES:
        for size in CREATE_SIZES:
            nbytes = SIZES[size]
            add("create", size, strategy, loop(lambda n=nbytes: create_and_share(n)))
            add("create", size, strategy, loop(lambda n=nbytes: create_in_shared(n)))
        for size in SHARE_SIZES:
            add(
                "share",
                size,
                strategy,
                timed_part(
                    lambda n=SIZES[size]: torch.full((n,), 1, dtype=torch.uint8),
                    lambda tensor: tensor.share_memory_(),
                ),
            )


# --- Between two processes.


def serve(strategy, there, back):
    """The other process: what it does with tensors is said by the strings between them."""
    torch.set_num_threads(1)
    multiprocessing.set_sharing_strategy(strategy)
    echoes = True
    while True:
        item = there.get()
        if item is None:
            return
        if isinstance(item, str):
            echoes = item == "echo"
            back.put(item)
        elif echoes:
            back.put(item)
        else:
            item.sum()


class Peer:
    """A process that serves, while this is used in a `with`."""

    def __init__(self, strategy, start_method):
        context = multiprocessing.get_context(start_method)
        self.there, self.back = context.SimpleQueue(), context.SimpleQueue()
        self.process = context.Process(
            target=serve, args=(strategy, self.there, self.back), daemon=True
        )

    def __enter__(self):
        self.process.start()
        return self

    def __exit__(self, *_):
        self.there.put(None)
        self.process.join()

    def switch(self, mode):
        self.there.put(mode)
        self.back.get()

    def round_trip(self, item):
        self.there.put(item)
        self.back.get()

    def stream(self, make):
        """Until the last one has been read.

        What is sent stays here until it has been read: under file_system PyTorch's manager may
        otherwise remove a file's name before the other process, or after that process has.
        """

        def work(runs):
            start = time.perf_counter()
            sent, read = [], []
            for i in range(runs):
                sent.append(make())
                self.there.put(sent[-1])
                if i % BATCH == BATCH - 1:
                    self.there.put("consume")
                    if read:
                        self.back.get()
                    read, sent = sent, []
            if read:
                self.back.get()
            self.switch("consume")
            return time.perf_counter() - start

        return work


def add_transfer_rows(add, strategy, peer):
    peer.switch("echo")
    for size in ROUND_TRIP_SIZES:
        tensor = torch.full((SIZES[size],), 1, dtype=torch.uint8).share_memory_()
        add("round_trip", size, strategy, loop(lambda t=tensor: peer.round_trip(t)))
    tensors = [torch.full((1024,), 1, dtype=torch.uint8).share_memory_() for _ in range(100)]
    add("state_dict", "100x1KiB", strategy, loop(lambda: peer.round_trip(tensors)))

    peer.switch("consume")
    source = torch.ones(SIZES["1MiB"] // 8, dtype=torch.int64)
    add("streaming", "1MiB", strategy, peer.stream(source.clone))

    def clone_into_shared():
        return new_shared(SIZES["1MiB"]).view(torch.int64).copy_(source)

    add("streaming", "1MiB", strategy, peer.stream(clone_into_shared))


def main():
    rows = Rows(__doc__)
    torch.set_num_threads(1)
    fastest = {}

    def add(work_name, size, strategy, work):
        name = f"torch/{work_name}/{size}/{strategy}"
        if not rows.wanted(name):
            return
        multiprocessing.set_sharing_strategy(strategy)
        fastest[name] = min(fastest.get(name, float("inf")), measure(work, rows.seconds))

    # Forked before anything else has run, so that no thread is lost.
    for start_method in START_METHODS:
        for strategy in STRATEGIES:
            multiprocessing.set_sharing_strategy(strategy)
            with Peer(strategy, start_method) as peer:
                add_transfer_rows(add, strategy, peer)
    add_memory_rows(add)
    for name, nanoseconds in fastest.items():
        rows.report(name, nanoseconds)


if __name__ == "__main__":
    main()
