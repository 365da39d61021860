#!/usr/bin/env bash
# From a fresh clone to an answer: installs what is missing, builds, fetches the default model and
# asks it. Arguments go to `octavo run` after the model. A second run does none of that again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "run: $*" >&2; }

# quietly WHAT COMMAND...: the command's output is shown only when it fails.
log=build/run.log
quietly() {
  local what=$1
  shift
  if ! "$@" </dev/null >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    say "$what failed; all of its output is in $PWD/$log"
    exit 1
  fi
}

scripts/setup.sh
mkdir -p build
if [[ ! -x build/cpu/octavo ]]; then say "building (first run: a few minutes)"; fi
if [[ ! -f build/cpu/build.ninja ]]; then quietly "configuring" cmake --preset cpu; fi
quietly "building" cmake --build build/cpu --target octavo
scripts/fetch_model.sh
exec build/cpu/octavo run smollm2 "$@"
