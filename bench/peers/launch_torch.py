#!/usr/bin/env python3
"""The work of launch_bench in PyTorch, at its best, as JSON: one row a line, named as there."""

import mmap
import statistics
import time

from rows import Rows  # before torch: it sets what torch reads when loaded

import torch
import torch.multiprocessing as multiprocessing

SIZES = {"small": 0, "1GiB": 1 << 30}
LOADS = [(4, "small"), (16, "small"), (16, "1GiB")]


def do_nothing(rank):
    pass


def make_ballast(nbytes):
    """Private memory, touched page by page."""
    if nbytes == 0:
        return None
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, nbytes, mmap.PAGESIZE):
        memory[at] = 1
    return memory


def launch_and_join(start_method, workers):
    start = time.perf_counter()
    multiprocessing.start_processes(do_nothing, nprocs=workers, start_method=start_method)
    return time.perf_counter() - start


def measure(start_method, workers, seconds):
    """Nanoseconds for one launch: the median of as many as there is time for, at least two."""
    launch_and_join(start_method, workers)  # warm; starts the fork server
    samples = []
    while len(samples) < 2 or sum(samples) < seconds:
        samples.append(launch_and_join(start_method, workers))
    return statistics.median(samples) * 1e9


def main():
    rows = Rows(__doc__)
    torch.set_num_threads(1)
    for workers, size in LOADS:
        ballast = make_ballast(SIZES[size])
        for start_method in ("spawn", "fork", "forkserver"):
            name = f"torch/launch{workers}/{size}/{start_method}"
            if rows.wanted(name):
                rows.report(name, measure(start_method, workers, rows.seconds))
        del ballast


if __name__ == "__main__":
    main()
