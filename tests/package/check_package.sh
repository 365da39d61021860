#!/usr/bin/env bash
# check_package.sh BUILD PREFIX: installs the build folder BUILD into PREFIX, builds examples/ with
# nothing but the package there, and compares what the example and the installed command answer.
# Needs the default model: scripts/fetch_model.sh fetches it.
set -euo pipefail
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
build=$(realpath "$1")
prefix=$(realpath -m "$2")
examples=$prefix-examples
model=${OCTAVO_HOME:-$HOME/.cache/octavo}/models/SmolLM2-135M-Instruct.Q4_1.gguf

fail() {
  echo "check_package: $*" >&2
  exit 1
}

# Moved once it is installed: a package must not depend on where that was.
rm -rf "$prefix" "$prefix-moved" "$examples"
cmake --install "$build" --prefix "$prefix-moved"
mv "$prefix-moved" "$prefix"
if grep -rIlF -e "$source" "$prefix"; then fail "an installed file names the source tree"; fi

cmake -S "$source/examples" -B "$examples" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror"
cmake --build "$examples"

question="What is gravity? Answer briefly."
expected=$("$prefix/bin/octavo" run "$model" "$question")
answer=$("$examples/generate" "$model" "$question")
[[ -n $expected && $answer == "$expected" ]] || fail "'$answer' is not '$expected'"

# Ctrl-C ends an answer that has begun.
exec 3< <(exec "$examples/generate" "$model" "Tell me a very long story." 2>"$examples/stderr.txt")
pid=$!
read -r -n 1 -u 3
kill -INT "$pid"
cat <&3 >"$examples/stdout.txt"
wait "$pid" || fail "exit code $? after Ctrl-C"
grep -q "(abort)" "$examples/stderr.txt" || fail "Ctrl-C did not end the answer"

if "$examples/generate" "$source/README.md" "$question" 2>"$examples/stderr.txt"; then
  fail "a file that is no model is accepted"
fi
grep -q README.md "$examples/stderr.txt" || fail "the error does not name the file"

if compgen -G "$prefix/lib*/octavo/python/octavo/_flash_attn.*" >/dev/null; then
  python=$(sed -n 's/^_Python3_EXECUTABLE:INTERNAL=//p' "$build/CMakeCache.txt")
  PYTHONPATH=$(echo "$prefix"/lib*/octavo/python) PYTHONDONTWRITEBYTECODE=1 \
    "$python" "$source/tests/python/flash_attn_module_test.py"
fi
echo "check_package: ok"
