#!/usr/bin/env bash
# Counts the system calls of rows of sharing_bench for N messages and for ten times as many: what a
# message costs, and that none of it makes, maps or unmaps memory.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../tools/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tools/lib.sh"

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  cat <<'END_USAGE'
usage: bench/syscalls.sh [REGEX]

Builds sharing_bench and runs the rows that REGEX names, by default round trips, state dicts and
streaming, under strace, all processes together. Prints what grows with the messages. Fails if that
is a call that makes, maps or unmaps memory.
END_USAGE
  exit 0
fi
filter=${1:-^shoal/(round_trip|state_dict|streaming)/}
few=200 many=2000
forbidden='^(mmap|munmap|mremap|memfd_create|ftruncate|fallocate|madvise|unlink|unlinkat|linkat)$'

if ! command -v strace >/dev/null; then die "this needs strace: tools/deps.sh peers"; fi
configure() { cd "$root" && cmake --preset release -D SHOAL_BENCH=ON; }
build() { cd "$root" && cmake --build --preset release --parallel "$jobs" --target sharing_bench; }
step "Configuring" configure
step "Building sharing_bench" build

bench=$root/build/release/bin/sharing_bench
counts=$(mktemp -d)
trap 'end_step; rm -rf "$counts"' EXIT
# count ROW N: lines "call number", sorted, in a file named N.
count() {
  strace --follow-forks --summary-only --output="$counts/raw" \
    "$bench" --benchmark_filter="^$1/iterations" --iterations="$2"
  awk '$4 ~ /^[0-9]+$/ && $NF != "total" { print $NF, $4 }' "$counts/raw" | sort >"$counts/$2"
}

count_both() { count "$1" "$few" && count "$1" "$many"; }

mapfile -t names < <("$bench" --iterations=1 --benchmark_list_tests --benchmark_filter="$filter" |
  sed 's|/iterations:.*||')
if ((${#names[@]} == 0)); then die "no row is named like $filter"; fi
failed=false
for name in "${names[@]}"; do
  step "$name" count_both "$name"
  # What grows by less than one call in twenty messages came by chance.
  join -a 2 -o 0,1.2,2.2 -e 0 "$counts/$few" "$counts/$many" |
    awk -v messages=$((many - few)) '
      ($3 - $2) * 20 >= messages { printf "  %-16s %6.2f a message\n", $1, ($3 - $2) / messages }' |
    sort >"$counts/growing"
  cat "$counts/growing"
  if awk '{ print $1 }' "$counts/growing" | grep -E "$forbidden"; then failed=true; fi
done
if $failed; then die "a message makes, maps or unmaps memory"; fi
echo "No message makes, maps or unmaps memory."
