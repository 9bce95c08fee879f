#!/usr/bin/env bash
# Builds the fuzz targets and runs all of them at once, each for so long.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'END'
usage: tools/fuzz.sh [seconds] [target…]

Installs what is missing (root or sudo), builds the fuzz targets of tests/fuzz with clang, libFuzzer,
AddressSanitizer and UndefinedBehaviorSanitizer, and runs those named, or all, at the same time and
each for so many seconds (60 is the default). What they find interesting is kept in
build/fuzz/corpus, where the next run starts. What breaks them lies in build/fuzz/findings, and
`build/fuzz/bin/TARGET FILE` shows it.

  tools/fuzz.sh                            a minute
  tools/fuzz.sh 3600 fuzz_segment_header   one of them, for an hour
END
}

# Longest input. A message of shm-manager's may have 32 KiB; what stands in a segment before its
# data, 2 KiB and 64 bytes for each block.
declare -A longest=([fuzz_manager_protocol]=33000 [fuzz_segment_header]=8192)

seconds=60
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  '' | *[!0-9]*) ;;
  *) seconds=$1; shift ;;
esac
targets=("$@")
if ((${#targets[@]} == 0)); then targets=("${!longest[@]}"); fi
for target in "${targets[@]}"; do
  [[ -n ${longest[$target]:-} ]] || die "no fuzz target $target; there are: ${!longest[*]}"
done

"$root/tools/deps.sh" check
cd "$root"
step "Configuring fuzz" cmake --preset fuzz
step "Building fuzz" cmake --build --preset fuzz --parallel "$jobs"

findings=build/fuzz/findings
logs=$(mktemp -d)
declare -A running=()
end_targets() {
  if ((${#running[@]} > 0)); then kill "${running[@]}" 2>/dev/null || true; fi
  rm -rf "$logs"
  end_step
}
trap end_targets EXIT
mkdir -p "$findings"
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target
  mkdir -p "$corpus"
  SHOAL_FUZZ_SEEDS=$corpus "build/fuzz/bin/$target" -max_total_time="$seconds" -timeout=20 \
    -max_len="${longest[$target]}" -artifact_prefix="$findings/$target-" -print_final_stats=1 \
    "$corpus" >"$logs/$target" 2>&1 </dev/null &
  running[$target]=$!
done

broken=0
for target in "${targets[@]}"; do
  pid=${running[$target]} code=0
  wait "$pid" || code=$?
  unset "running[$target]"
  # A target that was ended within a call leaves the name that it had given to a file.
  rm -f "/dev/shm/shoal-fuzz-$pid-segment-"*
  if ((code == 0)); then
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$target")
    reached=$(grep -oE 'cov: [0-9]+' "$logs/$target" | tail -n 1)
    printf '%-32s %4d s  %s inputs, %s edges, no finding\n' "$target" "$seconds" "$inputs" \
      "${reached#cov: }"
  else
    broken=1
    printf '%-32s %4d s  failed with code %d\n' "$target" "$seconds" "$code"
    tail -n "$shown_lines" "$logs/$target" >&2
  fi
done
exit "$broken"
