#!/usr/bin/env bash
# Everything that CI runs, from a fresh clone on a bare Debian 12 on. Each stage writes to
# build/logs/ and is shown only when it fails; the last line counts the tests of all stages.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
mkdir -p build/logs

# --- stages -----------------------------------------------------------------------------------

setup() { scripts/setup.sh --dev; }
model() { scripts/fetch_model.sh; }
format() { tools/check.sh format; }
layout() { tools/check.sh layout; }
cpu_build() { tools/check.sh build; }
cpu_test() { tools/check.sh test; }
instructions() { tools/check_instructions.py; }
clients() {  # the others install too much, see tests/server/clients
  OCTAVO_BINARY=build/cpu/octavo tests/server/clients/check_clients.py openai \
    $(command -v nginx >/dev/null && echo nginx)
}
package() { tests/package/check_package.sh build/cpu build/prefix; }

asan() {
  cmake --preset cpu-asan -DOCTAVO_WERROR=ON
  cmake --build build/cpu-asan --target octavo $(test_targets cpu-asan unit kernels hub)
  ctest --test-dir build/cpu-asan --output-on-failure --parallel "$(nproc)" \
    -L '^(unit|kernels|hub|server)$'
}

# What threads share is in base/, engine/ and server/; of the server also what clients can do to it.
tsan() {
  cmake --preset cpu-tsan
  cmake --build build/cpu-tsan --target unit_base unit_engine unit_server octavo
  # GCC 12's ThreadSanitizer does not know the address layout of newer kernels' randomisation.
  local without_aslr=(setarch "$(uname -m)" --addr-no-randomize)
  "${without_aslr[@]}" true 2>/dev/null || without_aslr=()
  # Every weight type in turn takes long, and threads are the same for all of them; and the longest
  # prompt is many steps like the others'.
  local reports=build/cpu-tsan/report code=0
  rm -f $reports.*
  GTEST_FILTER='-Types/*:LongPrompt.SixtyFourThousand*' TSAN_OPTIONS="log_path=$PWD/$reports" \
    "${without_aslr[@]}" ctest --test-dir build/cpu-tsan --output-on-failure --parallel "$(nproc)" \
    -R '^(unit_(base|engine|server)|server_(api|groups|http))$' || code=$?
  if compgen -G "$reports.*" >/dev/null; then
    cat $reports.*
    code=1
  fi
  return $code
}

fuzz() {
  cmake --preset cpu-fuzz
  cmake --build build/cpu-fuzz --target fuzz_all
  export -f fuzz_one
  printf '%s\0' build/cpu-fuzz/fuzz/* | xargs -0 -n 1 -P "$(nproc)" bash -euc 'fuzz_one "$0"'
}

fuzz_one() {
  local target=$1 name corpus seeds work=build/cpu-fuzz/work
  name=$(basename "$target")
  corpus=("$work/$name")
  for seeds in tests/fuzz/seeds/$name build/cpu-fuzz/seeds/$name; do
    [[ ! -d $seeds ]] || corpus+=("$seeds")
  done
  mkdir -p "${corpus[0]}"
  if ! "$target" -max_total_time=10 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$work/$name-" "${corpus[@]}" >"$work/$name.log" 2>&1; then
    echo "fuzzing $name:"
    tail -n 60 "$work/$name.log"
    return 1
  fi
}

cuda() {
  cmake --preset cuda -DOCTAVO_TESTS=ON -DOCTAVO_WERROR=ON -DBUILD_PYTHON=ON
  cmake --build build/cuda --target octavo octavo_archive octavo_flash_attn octavo_python \
    $(test_targets cuda gpu)
  if ldd build/cuda/octavo | grep -E 'libcuda|libcublas'; then
    echo "octavo must start on a machine without NVIDIA's libraries"
    return 1
  fi
  local objects=()
  if command -v cuobjdump >/dev/null || [[ -x /usr/local/cuda/bin/cuobjdump ]]; then
    mapfile -t objects < <(find build/cuda/src/backends/cuda -name '*.cu.o')
  fi
  tools/check_ptxas.py --log build/logs/cuda.log "${objects[@]}"
  build/cuda/octavo doctor
  tests/package/check_package.sh build/cuda build/prefix-cuda
  ctest --test-dir build/cuda --output-on-failure -L '^(gpu|python)$'
}

# Of a branch: what it changed. Of main: the files that the last day's commits, at least the last
# one, changed, the newest 40 of them: a checkout does not tell which of them were looked at before.
clang_tidy() {
  local base files
  if [[ $(git rev-parse --is-shallow-repository) != false ]]; then
    echo "no history here to tell what changed: skipped"
    return 0
  fi
  base=$(git merge-base HEAD main 2>/dev/null) || base=$(git rev-parse HEAD)
  local commits=("$base..HEAD") most=1000
  if [[ $base == "$(git rev-parse HEAD)" ]]; then
    most=40
    commits=(--since='24 hours ago' HEAD)
    [[ $(git rev-list --no-merges --count "${commits[@]}") -gt 0 ]] || commits=(-1 HEAD)
  fi
  mapfile -t files < <(git log --no-merges --name-only --format= "${commits[@]}" -- \
    'src/*.cpp' ':!src/backends/cuda' |
    awk -v most=$most '!seen[$0]++ && system("test -e " $0) == 0 && count++ < most')
  [[ ${#files[@]} -gt 0 ]] || return 0
  echo "looking at ${#files[@]} files"
  printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-16 --quiet -p build/cpu
}

# --- the runner ---------------------------------------------------------------------------------

# The targets tests_<label> that exist in a build folder.
test_targets() {
  local preset=$1 label
  shift
  for label in "$@"; do
    # Not grep -q: what it leaves unread would end cmake, and with pipefail that counts as "no".
    if cmake --build "build/$preset" --target help | grep "^tests_$label:" >/dev/null; then
      echo "tests_$label"
    fi
  done
}

passed=0
failed=0
failed_stages=()
status=0 # of the last stage

# stage NAME: runs the function of that name, adds up what ctest counted. Must not be called in a
# condition: the shell would ignore `set -e` in the stage, and lose a failure in its middle.
stage() {
  local name=$1 log=build/logs/$1.log start=$SECONDS good bad
  (
    set -e
    "$name"
  ) </dev/null >"$log" 2>&1
  status=$?
  read -r good bad < <(awk '/tests? passed, [0-9]+ tests? failed out of/ {
      for (i = 1; i < NF; ++i) if ($i == "passed,") bad += $(i + 1)
      total += $NF
    } END { print total - bad, bad + 0 }' "$log")
  if [[ $status -ne 0 ]]; then
    tail -n 100 "$log"
    [[ $bad -gt 0 ]] || bad=1 # the stage itself
    failed_stages+=("$name")
  fi
  passed=$((passed + good))
  failed=$((failed + bad))
  printf 'test: %-12s %-6s %4d s   %d passed, %d failed\n' \
    "$name" "$([[ $status -eq 0 ]] && echo ok || echo FAILED)" $((SECONDS - start)) "$good" "$bad"
}

stage setup
if [[ $status -eq 0 ]]; then
  stage model
  stage format
  stage layout
  stage cpu_build
  if [[ $status -eq 0 ]]; then
    stage cpu_test
    stage clients
    stage package
    stage instructions
    stage clang_tidy
  fi
  stage asan
  stage tsan
  stage fuzz
  if [[ -x /usr/local/cuda/bin/nvcc ]] || command -v nvcc >/dev/null; then
    stage cuda
  else
    echo "test: no nvcc here: the CUDA backend was not compiled"
  fi
fi

[[ ${#failed_stages[@]} -eq 0 ]] || echo "test: failed: ${failed_stages[*]}; see build/logs/"
echo "test: $SECONDS s in all"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
