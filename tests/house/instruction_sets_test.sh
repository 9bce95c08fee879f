#!/usr/bin/env bash
# That no function is compiled both for an instruction set and for everybody: the linker would keep
# one of the two, perhaps that which not every machine runs. Takes the object files of the sets.
set -euo pipefail

(($# > 0)) || { echo "no object files given" >&2; exit 2; }
shared=0
for object in "$@"; do
  set_name=$(basename "$object" .cpp.o)
  symbols=$(nm -C "$object" | grep -E ' [WVu] ' || true)
  # It has functions of its own, or this looks in the wrong place.
  grep -q "Eigen_$set_name::" <<<"$symbols"
  # The personality routine's address is data, and the same in all.
  if grep -vE "Eigen_$set_name::|shoal::cpu_$set_name::|DW\.ref\." <<<"$symbols"; then
    echo "the above are in $object and may be elsewhere" >&2
    shared=1
  fi
done
exit "$shared"
