#!/usr/bin/env bash
# under_load.sh GPU_TESTS: tests of equal bits in eight processes at once, on a machine with a GPU;
# takes half a minute. Time slices make races show that one process alone never meets.
set -euo pipefail
tests=${1:?the gpu test program}
filter='*RepetitionDoesNotChangeBits/Hopper:*BatchDoesNotChangeBits/Hopper:LinearOps.FewTokens*'

processes=()
for ((i = 0; i < 8; ++i)); do
  "$tests" --gtest_brief=1 --gtest_repeat=3 --gtest_filter="$filter" &
  processes+=($!)
done
status=0
for process in "${processes[@]}"; do wait "$process" || status=1; done
if ((status == 0)); then echo "under_load: ok"; fi
exit $status
