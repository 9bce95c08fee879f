"""What the peers' programs have in common: which rows to run, for how long, and how they are printed."""

import argparse
import json
import os
import re

# Before torch is imported: threads only get into each other's way here.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"


class Rows:
    """The command line: `wanted(name)` says whether to run a row, `seconds` for how long."""

    def __init__(self, description):
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--min-time", type=float, default=0.2, help="seconds for each row")
        parser.add_argument("--filter", default=".", help="rows to run, a regular expression")
        parser.add_argument("--exclude", default="^$", help="rows to leave out all the same")
        options = parser.parse_args()
        self.seconds = options.min_time
        self._wanted, self._unwanted = re.compile(options.filter), re.compile(options.exclude)

    def wanted(self, name):
        return bool(self._wanted.search(name)) and not self._unwanted.search(name)

    @staticmethod
    def report(name, nanoseconds):
        print(json.dumps({"name": name, "ns": nanoseconds}), flush=True)
