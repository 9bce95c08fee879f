#!/usr/bin/env bash
# From a fresh clone to a trained model: installs what is missing, builds, and trains a classifier
# of Fashion-MNIST on all cores. Arguments go to shoal-train, after the demo's own.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  cat <<'END'
usage: tools/demo.sh [shoal-train options…]

Installs what is missing (root or sudo), builds, and trains on Fashion-MNIST with one Hogwild worker
per core. A later option overrides the demo's own: tools/demo.sh --epochs 1 --workers 1
All options of the program: build/release/bin/shoal-train --help
END
  exit 0
fi

"$root/tools/deps.sh" build

# A tree that has been configured keeps its parts; a new one does without those that only tests and
# benchmarks need packages for.
parts=()
if [[ ! -f $root/build/release/build.ninja ]]; then
  parts=(-D SHOAL_TESTS=OFF -D SHOAL_BENCH=OFF)
fi
# Presets are found from the source folder; the program itself runs where the caller is.
configure() { cd "$root" && cmake --preset release "${parts[@]}"; }
build() { cd "$root" && cmake --build --preset release --parallel "$jobs" --target shoal-train; }
step "Configuring" configure
step "Building shoal-train" build

exec "$root/build/release/bin/shoal-train" --mode hogwild --workers "$jobs" --epochs 5 \
  --data /usr/share/datasets/fashion-mnist "$@"
