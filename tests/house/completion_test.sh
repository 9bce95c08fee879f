#!/usr/bin/env bash
# completion_test.sh shm-manager.bash: what bash offers after some beginnings of a command line.
set -euo pipefail

bash -n "$1"
# shellcheck source=/dev/null
source "$1"
compopt() { :; }  # takes effect only while bash completes

# offered word…: what is offered for the last of the words, in one line.
offered() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _shm_manager
  echo "${COMPREPLY[*]}"
}

failed=0
# expect "offer" word…
expect() {
  local wanted=$1 got
  shift
  got=$(offered "$@")
  if [[ $got == "$wanted" ]]; then return; fi
  printf 'after "%s"\n  expected: %s\n  offered:  %s\n' "$*" "$wanted" "$got" >&2
  failed=1
}

[[ $(complete -p shm-manager) == *_shm_manager* ]] || failed=1
expect 'status reap doctor serve --help --version' shm-manager ''
expect 'status' shm-manager st
expect 'serve' shm-manager se
expect '' shm-manager x
expect '--dry-run --json --prefix --help' shm-manager reap ''
expect '--json --prefix --help' shm-manager doctor --
expect '--max-clients --max-names --max-rate' shm-manager serve --max
expect '--require-manager' shm-manager status --json --req
expect 'name bytes resident age holders state' shm-manager status --sort ''
expect 'resident' shm-manager status --sort r
expect 'age' shm-manager status --sort = a
expect 'name bytes resident age holders state' shm-manager status --sort =
expect 'pid' shm-manager status --group ''
expect 'always' shm-manager status --watch 2 --color al
expect 'debug info warning error' shm-manager serve --log-level ''
expect '' shm-manager serve --max-names ''
expect '' shm-manager status --watch ''
expect '--watch' shm-manager status --w
expect "$1" shm-manager serve --config "$1"
exit "$failed"
