#!/usr/bin/env bash
# sanitize.sh GPU_TESTS: small cases of attention's kernels and of products of few tokens under
# compute-sanitizer, on a machine with a GPU; takes two minutes. Neither tool may find anything.
# racecheck looks at the kernels without mbarriers only: it does not follow their waits by parity,
# and reports what warps hand over by them.
set -euo pipefail
tests=${1:?the gpu test program}
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)

prefill='*AttentionPrefill.Small*:*AttentionPrefill.CrossLengths*:*AttentionPrefill.Windows*'
prefill+=':*AttentionPrefill.SinksAndSoftcap*:*AttentionPrefill.Fp8*'
decode='*DecodeAttentionTest.EmptyAndCrossedLengths*:*DecodeAttentionTest.Groups*'
decode+=':*DecodeFormatsTest.TreeMasks*:*DecodeFormatsTest.Fp8*'
products='LinearOps.LinearAndResidual:LinearOps.FewTokensAreTheSameBitsAlone'
products+=':FewTokensWgmma.ARowIsTheSameBitsInEveryBatch'
kv='FlashAttn*:KvBlocksTest*:*KvWriteTest.PaddingIsLeftAlone*'

run() {
  echo "--- $1: $2"
  "$sanitizer" --tool "$1" --error-exitcode 1 "$tests" --gtest_brief=1 --gtest_filter="$2"
}
run memcheck "$prefill"
run memcheck "$decode"
run memcheck "$kv"
run memcheck "$products"
run racecheck '*AttentionPrefill.Small/Portable:KvBlocksTest*'
echo "sanitize: ok"
