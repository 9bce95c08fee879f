#!/usr/bin/env bash
# manual_test.sh page.scd: whether it becomes a manual page without a complaint.
set -euo pipefail

if ! command -v scdoc >/dev/null; then
  echo "SKIP: there is no scdoc"
  exit 0
fi

page=$(mktemp --suffix=.1)
trap 'rm -f "$page"' EXIT
scdoc <"$1" >"$page"
if command -v man >/dev/null; then
  said=$(LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings --local-file "$page" 2>&1 >/dev/null)
  if [[ -n $said ]]; then
    echo "$said"
    exit 1
  fi
fi
