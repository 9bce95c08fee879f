#!/usr/bin/env bash
# What sharing, launching and training cost in Shoal, at the least, and in PyTorch, measured in turns.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../tools/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tools/lib.sh"

usage() {
  cat <<'END_USAGE'
usage: bench/compare.sh [--bench NAME] [--quick] [--rounds N] [--filter REGEX] [--json FILE]

Builds a bench and runs it and the same work in PyTorch in turns, so that all meet the same load, and
prints the medians of each row over the rounds. What the columns mean is said below them.

  --bench NAME    sharing, the default, launch or train
  --quick         two short rounds, without what is large
  --rounds N      so many rounds, 5 by default
  --filter REGEX  only rows with such names; build/release/bin/NAME_bench --benchmark_list_tests has them all
  --json FILE     also writes the table, with the machine it is from, as JSON
  -h, --help      print this
END_USAGE
}

bench=sharing rounds=5 seconds=0.1 filter=. json='' excluded='^$'
while (($# > 0)); do
  case $1 in
    --quick) rounds=2 seconds=0.03 excluded='/(16|64|256)MiB/' ;;
    --bench | --rounds | --filter | --json)
      if (($# < 2)); then die "$1 needs a value; see --help"; fi
      declare "${1#--}=$2"
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) printf 'unknown argument: %s\n' "$1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
if [[ ! $rounds =~ ^[1-9][0-9]*$ ]]; then die "--rounds needs a number of at least 1"; fi
if [[ ! $bench =~ ^(sharing|launch|train)$ ]]; then die "there is no bench $bench; see --help"; fi
if ! command -v jq >/dev/null; then die "this needs jq: tools/deps.sh peers"; fi

# The system's Python is where Debian's PyTorch is, whatever else comes first in the path.
python=''
for candidate in python3 /usr/bin/python3; do
  if [[ -z $python ]] && "$candidate" -c 'import torch' 2>/dev/null; then python=$candidate; fi
done
if [[ -z $python ]]; then
  echo "PyTorch is left out, since Python knows no torch. To install it: tools/deps.sh peers"
fi

results=$(mktemp -d)
trap 'end_step; rm -rf "$results"' EXIT

# The rows that --quick leaves out are found by name, as Google Benchmark has no filter for both.
list_rows() {
  "$root/build/release/bin/${bench}_bench" --benchmark_list_tests |
    grep -E -- "$filter" | grep -Ev -- "$excluded" | sed 's/[.+]/\\&/g; s/.*/^&$/' | paste -sd '|'
}
measure_shoal() {
  "$root/build/release/bin/${bench}_bench" --benchmark_filter="$1" \
    --benchmark_min_time="$seconds" --benchmark_out="$2" --benchmark_out_format=json
}
measure_torch() {
  "$python" -B "$root/bench/peers/${bench}_torch.py" --filter "$filter" --exclude "$excluded" \
    --min-time "$seconds" >"$1"
}
configure() { cd "$root" && cmake --preset release -D SHOAL_BENCH=ON; }
build() { cd "$root" && cmake --build --preset release --parallel "$jobs" --target "${bench}_bench"; }

step "Configuring" configure
step "Building ${bench}_bench" build
rows=$(list_rows) || die "no row is named like $filter"
for ((round = 1; round <= rounds; ++round)); do
  step "Round $round of $rounds: Shoal, raw" measure_shoal "$rows" "$results/shoal-$round.json"
  if [[ -n $python ]]; then
    step "Round $round of $rounds: PyTorch" measure_torch "$results/torch-$round.json"
  fi
done

machine=$(jq -n --arg cpus "$(nproc)" --arg kernel "$(uname -r)" --arg rounds "$rounds" \
  --arg torch "$([[ -z $python ]] || "$python" -c 'import torch; print(torch.__version__)')" \
  '{cpus: ($cpus | tonumber), kernel: $kernel, torch: $torch, rounds: ($rounds | tonumber)}')
table=$results/table.json
jq -s -f "$root/bench/compare.jq" --argjson machine "$machine" "$results"/*-*.json \
  >"$table"
if [[ -n $json ]]; then cp "$table" "$json"; fi

echo
jq -r '.rows[] | [.name, .text.shoal, .text.raw, .text.over_raw, .text.torch, .text.speedup,
                  .text.best_speedup] | @tsv' "$table" |
  awk -F '\t' '
    function line(a, b, c, d, e, f, g) { printf "%-36s %9s %9s %7s %9s %8s %8s\n", a, b, c, d, e, f, g }
    BEGIN { line("", "Shoal", "raw", "/ raw", "PyTorch", "faster", "at least") }
    { line($1, $2, $3, $4, $5, $6, $7) }'
cat <<'END_LEGEND'

Medians over the rounds. raw: the bare system calls, or for streaming a copy within one process, or
for training the arithmetic alone, at the rate of a product of two matrices of 1024 by 1024.
/ raw: Shoal's time through raw's. faster: PyTorch's time, by the same strategy or start method,
through Shoal's; at least: the same for whichever of PyTorch's is the fastest one.
END_LEGEND
