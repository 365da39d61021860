#!/usr/bin/env bash
# Installs what octavo needs to be built and run on Debian 12, and nothing that is there already.
# --dev adds what the tests and the checks need. Uses sudo where it is not root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_packages=(
  g++ cmake ninja-build
  libboost1.81-dev libboost-json1.81-dev libfmt-dev libspdlog-dev libcli11-dev libutf8proc-dev
  libpcre2-dev libcurl4-openssl-dev libssl-dev libyaml-cpp-dev
  python3 python3-pip # to fetch the default model
)
dev_packages=(
  git ccache clang-16 libclang-rt-16-dev clang-format-16 clang-tidy-16 libgtest-dev libgmock-dev
  openssl valgrind python3-venv python3-dev pybind11-dev
)

say() { echo "setup: $*" >&2; }

packages=("${build_packages[@]}")
case "${1-}" in
  "") ;;
  --dev) packages+=("${dev_packages[@]}") ;;
  *)
    say "usage: scripts/setup.sh [--dev]"
    exit 2
    ;;
esac

# The subshell keeps the file's many variables to itself.
system=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}") || system="unknown"
if [[ $system != "debian 12" ]]; then
  [[ -x build/cpu/octavo ]] && exit 0 # built already: nothing to warn of
  say "untested on this system ($system); octavo is built and tested on Debian 12. It needs:"
  say "a C++20 compiler (GCC 12 or newer), CMake 3.25, Ninja, Boost 1.81 with Boost.JSON, {fmt} 9,"
  say "spdlog, CLI11, utf8proc, PCRE2, yaml-cpp, libcurl 7.85, OpenSSL 3, Python 3 with pip. Going"
  say "on with what is there."
  exit 0
fi

installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "${packages[@]}" 2>/dev/null || true)
mapfile -t missing < <(comm -23 <(printf '%s\n' "${packages[@]}" | sort) \
  <(sed -n 's/^ii //p' <<<"$installed" | sort))
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    say "neither root nor sudo here. As root: apt-get install ${missing[*]}"
    exit 1
  fi
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null >>"$log" 2>&1
}

say "installing ${missing[*]}"
if ! apt update || ! apt install --no-install-recommends -y "${missing[@]}"; then
  tail -n 20 "$log" >&2
  say "apt-get failed: is the network there, and are Debian 12's own package sources set up?"
  exit 1
fi
