#!/usr/bin/env bash
# Random schedules of the engine, each held bit for bit against its requests alone: more of them
# than CI has time for.
#   scripts/check_schedules.sh [COUNT] [FIRST_SEED]    100000 schedules from seed 1 on
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

cmake --preset cpu -DOCTAVO_TESTS=ON > /dev/null
cmake --build build/cpu --target unit_engine
OCTAVO_TEST_SCHEDULES=${1:-100000} OCTAVO_TEST_SEED=${2:-1} \
  build/cpu/tests/unit_engine --gtest_brief=1 --gtest_filter='EngineEquivalence.*'
