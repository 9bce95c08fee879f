#!/usr/bin/env python3
"""The work of launch_bench in PyTorch, at its best, as JSON: one row a line, named as there."""

import argparse
import json
import mmap
import os
import re
import statistics
import time

# Before torch is imported: threads only get into each other's way here.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import torch  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402

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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--min-time", type=float, default=0.2, help="seconds for each row")
    parser.add_argument("--filter", default=".", help="rows to run, a regular expression")
    parser.add_argument("--exclude", default="^$", help="rows to leave out all the same")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for workers, size in LOADS:
        ballast = make_ballast(SIZES[size])
        for start_method in ("spawn", "fork", "forkserver"):
            name = f"torch/launch{workers}/{size}/{start_method}"
            if re.search(options.filter, name) and not re.search(options.exclude, name):
                row = {"name": name, "ns": measure(start_method, workers, options.min_time)}
                print(json.dumps(row), flush=True)
        del ballast


if __name__ == "__main__":
    main()
