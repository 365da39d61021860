#!/usr/bin/env bash
# What a change must pass before it is worth a review. All parts, or the ones named:
#   tools/check.sh [format] [layout] [build] [test]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Objects in the cache are found again from another clone or worktree.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

check_format() {
  local files
  mapfile -t files < <(git ls-files --cached --others --exclude-standard \
    '*.h' '*.inl' '*.cpp' '*.cu' '*.cuh' ':!tests/data')
  printf '%s\0' "${files[@]}" | xargs -0 -n 16 -P "$(nproc)" clang-format-16 --dry-run -Werror
}

check_layout() {
  tools/tidy.py --self-test
  tools/tidy.py
  tools/check_ptxas.py --self-test
}

check_build() {
  cmake --preset cpu -DOCTAVO_TESTS=ON -DOCTAVO_WERROR=ON
  cmake --build build/cpu
}

check_test() {
  ctest --test-dir build/cpu --output-on-failure --parallel "$(nproc)"
}

parts=("$@")
[[ $# -gt 0 ]] || parts=(format layout build test)
for part in "${parts[@]}"; do
  case $part in
    format | layout | build | test) ;;
    *)
      echo "usage: tools/check.sh [format] [layout] [build] [test]" >&2
      exit 2
      ;;
  esac
done
for part in "${parts[@]}"; do "check_$part"; done
