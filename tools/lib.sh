# shellcheck shell=bash
# What the scripts of this folder share: where the tree is, and steps that are quiet until they
# fail. Sourced, by a bash that runs with `set -euo pipefail`.

# shellcheck disable=SC2034  # used by those who source this
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034
jobs=$(nproc)

# How much of a failed step's output to show; compilers name the first error far above the end.
readonly shown_lines=200

if [[ -t 2 && -z ${NO_COLOR:-} ]]; then
  red=$'\e[1;31m' plain=$'\e[0m'
else
  red='' plain=''
fi

step_log='' step_ticker=''
end_step() {
  if [[ -n $step_ticker ]]; then kill "$step_ticker" 2>/dev/null || true; fi
  if [[ -n $step_log ]]; then rm -f "$step_log"; fi
  step_log='' step_ticker=''
}
trap end_step EXIT

# die "message": the last word of a script that cannot go on.
die() {
  printf '%serror:%s %s\n' "$red" "$plain" "$1" >&2
  exit 1
}

# For people who wait at a terminal: the seconds that have passed, and how far ninja is.
show_progress() {
  local title=$1 log=$2 started=$SECONDS
  while sleep 0.5; do
    printf '\r%-32s %4d s  %-11s' "$title" $((SECONDS - started)) \
      "$(tail -n 1 "$log" | grep -oE '^\[[0-9]+/[0-9]+\]' || true)"
  done
}

# step "What happens" command…: one line with the time it took. Its output is shown only if it
# fails; then the script ends with its code. The command reads nothing from standard input.
step() {
  local title=$1 started=$SECONDS code=0
  shift
  step_log=$(mktemp)
  if [[ -t 1 ]]; then
    show_progress "$title" "$step_log" &
    step_ticker=$!
  else
    printf '%-32s ' "$title"
  fi
  # A subshell with its own -e: a function that is a step stops at its first failure, too.
  set +e
  (set -e; "$@") >"$step_log" 2>&1 </dev/null
  code=$?
  set -e
  if [[ -n $step_ticker ]]; then
    kill "$step_ticker" 2>/dev/null || true
    wait "$step_ticker" 2>/dev/null || true
    step_ticker=''
    printf '\r%-32s ' "$title"
  fi
  printf '%4d s  %-11s\n' $((SECONDS - started)) "$( ((code == 0)) || echo failed)"
  if ((code != 0)); then
    {
      printf '%s%s failed with code %d.%s The command was:\n ' "$red" "$title" "$code" "$plain"
      printf ' %q' "$@"
      printf '\nIts output, up to the last %d lines:\n' "$shown_lines"
      tail -n "$shown_lines" "$step_log"
    } >&2
    end_step
    exit "$code"
  fi
  end_step
}
