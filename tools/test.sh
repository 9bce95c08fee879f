#!/usr/bin/env bash
# Installs what is missing, builds what is to be tested and runs the tests.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'END'
usage: tools/test.sh [preset] [--suites NAME,…] [ctest options…]

Installs what is missing (root or sudo), builds everything with one of CMakePresets.json's presets
(release is the default), and runs the tests, as many at a time as there are cores.

  tools/test.sh                        all tests, optimised
  tools/test.sh asan --suites runtime  the runtime's tests, with AddressSanitizer; builds only these
  tools/test.sh release -R Channel     tests by name
END
}

preset=release
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  '' | -*) ;;
  *) preset=$1; shift ;;
esac

targets=() tests=()
if [[ ${1:-} == --suites ]]; then
  if (($# < 2)); then die "--suites needs names; see --help"; fi
  for suite in ${2//,/ }; do targets+=(--target "suite_$suite"); done
  tests=(-L "^(${2//,/|})\$")
  shift 2
fi

"$root/tools/deps.sh" test
cd "$root"

# GCC 12's ThreadSanitizer cannot start where the kernel randomises addresses by more than 28 bits,
# as newer ones do, so its programs run without. They also run while building: to list their tests.
runner=()
if [[ $preset == tsan ]] && setarch --addr-no-randomize true 2>/dev/null; then
  runner=(setarch --addr-no-randomize)
fi

# Demos configure a new tree without tests, so they are asked for by name.
step "Configuring $preset" cmake --preset "$preset" -D SHOAL_TESTS=ON -D SHOAL_BENCH=ON
step "Building $preset" "${runner[@]}" cmake --build --preset "$preset" --parallel "$jobs" \
  "${targets[@]}"
exec "${runner[@]}" ctest --preset "$preset" --parallel "$jobs" --no-label-summary "${tests[@]}" \
  "$@" </dev/null
