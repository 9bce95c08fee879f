#!/usr/bin/env bash
# units_test.sh folder: whether systemd takes the configured units in folder/system and folder/user,
# and how much of the machine a manager could harm with them.
set -euo pipefail

if ! command -v systemd-analyze >/dev/null; then
  echo "SKIP: there is no systemd-analyze"
  exit 0
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r "$1/." "$scratch"

# verify asks that the program is there; where it will be installed it is not yet.
printf '#!/bin/sh\n' >"$scratch/shm-manager"
chmod +x "$scratch/shm-manager"
for unit in "$scratch"/*/shm-manager.service; do
  grep -qE '^ExecStart=/[^ ]*/shm-manager serve' "$unit"
  sed -i "s|^ExecStart=[^ ]*|ExecStart=$scratch/shm-manager|" "$unit"
done

# A user's systemd has a folder for what runs; one of root's processes has it not.
export XDG_RUNTIME_DIR=$scratch/run
mkdir -m 700 "$XDG_RUNTIME_DIR"

# check system|user most: of 100 points of exposure.
check() {
  local manager=$1 most=$2 said
  # The manual is not installed yet either.
  said=$(systemd-analyze "--$manager" verify --man=no --recursive-errors=no \
    "$scratch/$manager/shm-manager.service" "$scratch/$manager/shm-manager.socket" 2>&1) || {
    echo "$said"
    exit 1
  }
  # Misspelt settings are warnings.
  if grep shm-manager <<<"$said"; then exit 1; fi
  systemd-analyze "--$manager" security --no-pager --offline=true --threshold="$most" \
    "$scratch/$manager/shm-manager.service" >"$scratch/report" || {
    cat "$scratch/report"
    exit 1
  }
  tail -n 1 "$scratch/report"
}

check system 20
check user 20
