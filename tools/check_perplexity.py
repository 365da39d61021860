#!/usr/bin/env python3
"""Holds the perplexity of every weight type, computed as a user would, against exact arithmetic.

    tools/check_perplexity.py LLAMA_QUANTIZE MODEL.gguf [--types Q4_0,Q4_K,…] [--text FILE …]

octavo has no quantiser: LLAMA_QUANTIZE is llama.cpp's, which makes a file of each type (--pure)
from the model, a Llama, once that is float32 and wide enough for every type (tools/widen_llama.py).
Then `octavo eval perplexity` compares

  - the default arithmetic with float32, KV cache included, on the text: at most 0.3 % apart, with
    the standard error of that difference, token by token (rounding moves single tokens by several
    per cent, so that a short text says little),
  - float32 with the backend `ref` on the text's beginning, since `ref` takes a second for a few
    tokens: at most 0.01 % apart.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from widen_llama import widen

ROOT = Path(__file__).resolve().parents[1]
TYPES = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K",
         "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS")
MOST_OF_DEFAULT, MOST_OF_FLOAT32 = 0.003, 0.0001
EXACT = ("--dtype", "float32", "--kv-cache-dtype", "float32")
# Prose and code, of which 11,000 tokens are counted: the standard error is 0.06 %.
TEXTS = (("docs/*.md", 48000), ("src/engine/*.cpp", 24000))
BEGINNING_BYTES = 250  # more than two windows of 16 tokens


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


def quantize(program, source, target, kind):
    run(program, "--allow-requantize", "--pure", source, target, kind)


def nlls(octavo, model, text, ctx_size, *flags):
    """The negative log-likelihoods of the tokens that are counted."""
    with tempfile.NamedTemporaryFile("r") as file:
        run(octavo, "eval", "perplexity", model, "--text", text, "--ctx-size", ctx_size,
            "--save-nll", file.name, *flags)
        return [float(line) for line in Path(file.name).read_text().split()]


def difference(nlls_a, nlls_b):
    """(how far the perplexity of a is from that of b, its standard error), of one"""
    pairs = [a - b for a, b in zip(nlls_a, nlls_b, strict=True)]
    ratio = math.exp(statistics.fmean(pairs))
    return ratio - 1, ratio * statistics.stdev(pairs) / math.sqrt(len(pairs))


def check(octavo, model, text, beginning):
    """(float32's, how far the default is from it, the error of that, float32's from ref)"""
    exact = nlls(octavo, model, text, 512, *EXACT)
    of_default, error = difference(nlls(octavo, model, text, 512), exact)
    ref, float32 = (nlls(octavo, model, beginning, 16, "--backend", backend, *EXACT)
                    for backend in ("ref", "cpu"))
    return exact, of_default, error, difference(float32, ref)[0]


def default_text():
    return b"".join(
        b"".join(path.read_bytes() for path in sorted(ROOT.glob(pattern)))[:size]
        for pattern, size in TEXTS)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quantizer", type=Path, metavar="LLAMA_QUANTIZE")
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--text", type=Path, nargs="+",
                        help="default: the beginnings of docs and of src/engine")
    parser.add_argument("--octavo", type=Path, default=ROOT / "build" / "cpu" / "octavo")
    args = parser.parse_args()
    failed = []
    print("| type | perplexity in float32 | default, % off | ref, % off |\n|---|---|---|---|",
          flush=True)
    with tempfile.TemporaryDirectory() as folder:
        plain, wide, one = (Path(folder) / f"{name}.gguf" for name in ("plain", "wide", "one"))
        text, beginning = (Path(folder) / f"{name}.txt" for name in ("text", "beginning"))
        whole = b"".join(path.read_bytes() for path in args.text) if args.text else default_text()
        text.write_bytes(whole)
        beginning.write_bytes(whole[:BEGINNING_BYTES])
        quantize(args.quantizer, args.model, plain, "F32")
        widen(plain, wide)
        plain.unlink()
        for kind in args.types.split(","):
            quantize(args.quantizer, wide, one, kind)
            exact, of_default, error, of_float32 = check(args.octavo, one, text, beginning)
            print(f"| {kind} | {math.exp(statistics.fmean(exact)):.3f} | {100 * of_default:+.3f} ± "
                  f"{100 * error:.3f} | {100 * of_float32:+.4f} |", flush=True)
            if abs(of_default) > MOST_OF_DEFAULT or abs(of_float32) > MOST_OF_FLOAT32:
                failed.append(kind)
        print(f"{len(exact)} tokens of {len(whole)} bytes")
    if failed:
        sys.exit(f"too far from exact arithmetic: {', '.join(failed)}")


if __name__ == "__main__":
    main()
