#!/usr/bin/env bash
# Installs the Debian packages that Shoal needs and this system lacks. The one list of them.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# To build the library and its programs, and the data that the demo trains on.
build_packages=(
  cmake
  dataset-fashion-mnist
  g++
  libboost-dev
  libcli11-dev
  libdlpack-dev
  libeigen3-dev
  libspdlog-dev
  libsystemd-dev
  ninja-build
  nlohmann-json3-dev
  pkg-config
  prometheus-cpp-dev
  scdoc
  zlib1g-dev
)
# To build and run the tests, and build the benchmarks; ccache since three presets compile much of the same.
test_packages=(
  ccache
  libbenchmark-dev
  libgtest-dev
  librapidcheck-dev
  procps
  systemd
)
# To compare with others, as bench/compare.sh does, and to count system calls, as bench/syscalls.sh.
# OpenBLAS is for PyTorch, which without it multiplies matrices thirty times slower.
peer_packages=(
  jq
  libopenblas0-serial
  python3-torch
  strace
)
# To check the tree as .ci/run does; libFuzzer and clang's sanitizers are in libclang-rt.
check_packages=(
  clang
  clang-format
  clang-tidy
  libclang-rt-14-dev
)

usage() {
  cat <<'END'
usage: tools/deps.sh [build|test|peers|check] [--dry-run|--list] [-v]

Installs what is missing to build (and demonstrate), to test (which includes build; the default),
to compare with PyTorch (peers, which includes test), or to check as .ci/run does (which includes
test). Needs root or sudo only if something is missing.

  --dry-run      print the missing packages and install nothing
  --list         print all packages of the group, missing or not
  -v, --verbose  also say so when nothing is missing
  -h, --help     print this
END
}

group=test action=install verbose=false
for argument in "$@"; do
  case $argument in
    build | test | peers | check) group=$argument ;;
    --dry-run | --list) action=${argument#--} ;;
    -v | --verbose) verbose=true ;;
    -h | --help) usage; exit 0 ;;
    *) printf 'unknown argument: %s\n' "$argument" >&2; usage >&2; exit 2 ;;
  esac
done

packages=("${build_packages[@]}")
if [[ $group != build ]]; then packages+=("${test_packages[@]}"); fi
if [[ $group == peers ]]; then packages+=("${peer_packages[@]}"); fi
if [[ $group == check ]]; then packages+=("${check_packages[@]}"); fi

if [[ $action == list ]]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  {
    echo "This system has no apt-get. Shoal needs what Debian 12 calls:"
    printf '  %s\n' "${packages[@]}"
    echo "With their like in place, build by hand: cmake --preset release && cmake --build --preset release"
  } >&2
  exit 1
fi

# dpkg-query fails if it has never heard of one of the names, and still tells of the others.
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  if ! grep -qxF "installed $package" <<<"$installed"; then missing+=("$package"); fi
done

if ((${#missing[@]} == 0)); then
  if $verbose; then echo "All ${#packages[@]} packages to $group are installed."; fi
  exit 0
fi
if [[ $action == dry-run ]]; then
  printf '%s\n' "${missing[@]}"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  as_root=(sudo)
  # Asks for the password now, while the terminal is ours alone.
  if ! command -v sudo >/dev/null || ! sudo -v; then
    die "installing needs root. Have an administrator run:
  apt-get install --no-install-recommends ${missing[*]}"
  fi
fi
# env, since sudo clears the environment. The lock: another installation may be under way.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
     apt-get -qq -y -o DPkg::Lock::Timeout=120)
# In subshells: whatever code apt-get fails with, ours is 1.
(step "Updating package lists" "${apt[@]}" update) || exit 1
(step "Installing ${#missing[@]} packages" \
  "${apt[@]}" install --no-install-recommends "${missing[@]}") || exit 1
