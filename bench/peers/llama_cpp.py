#!/usr/bin/env python3
"""Runs octavo and llama.cpp in turn on the same files and prints their rates and ratios.

    bench/peers/llama_cpp.py [MODEL.gguf ...] [--rounds 5] [--threads 2] [--batches 1,8,32]
                             [--input-len 512] [--output-len 64] [--context 4096]
                             [--quantize Q8_0,Q4_0]
                             [--random 1b:Q4_0,1b:Q8_0,1b:Q4_K] [--work build/peers]

LLAMA_CPP_BIN names a folder with llama-bench, llama-batched-bench and, for --quantize,
llama-quantize, built for this machine. Without it they are built below build/peers from the
sources inside the Python package llama-cpp-python, which takes an hour on two cores.
--quantize adds files of other types, made from the first one below --work: their values are
rounded twice, which changes no speed. --random adds models of random weights, of the shapes and
types of tools/make_random_gguf.py; each is made in --work when its turn comes and removed after it.
With /dev/shm for --work no disk is read. A row is the median of its rounds; batch 1 comes from
llama-bench, which decodes without a prompt, larger ones, of which each sequence has 32 + 32 tokens,
from llama-batched-bench. --context adds a prompt of so many tokens and decoding behind it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from make_random_gguf import SHAPES, TYPES, write_model  # noqa: E402

WORK = ROOT / "build" / "peers"
OCTAVO = ROOT / "build" / "cpu" / "octavo"
BATCH_TOKENS = 32  # of the prompt, and of the answer, of each sequence of a batch
TARGETS = ("llama-bench", "llama-batched-bench", "llama-quantize")


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


def build_peer():
    sources = WORK / "sources"
    if not sources.exists():
        sources.mkdir(parents=True)
        run(sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:",
            "--dest", sources, "llama-cpp-python")
        run("tar", "-xf", next(sources.glob("*.tar.gz")), "-C", sources, "--strip-components", 1)
    off = [f"-DLLAMA_{what}=OFF"
           for what in ("CURL", "OPENSSL", "BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_SERVER",
                        "BUILD_UI")]
    run("cmake", "-S", sources / "vendor" / "llama.cpp", "-B", WORK / "llama.cpp",
        "-DCMAKE_BUILD_TYPE=Release", *off)
    run("cmake", "--build", WORK / "llama.cpp", "-j", os.cpu_count(), "--target", *TARGETS)
    return WORK / "llama.cpp" / "bin"


def octavo_rates(model, threads, batch, input_len, output_len):
    report = json.loads(run(OCTAVO, "bench", "latency", model, "--threads", threads,
                            "--batch-size", batch, "--input-len", input_len, "--output-len",
                            output_len, "--num-iters", 1, "--json"))
    return report["prefill_tokens_per_s"], report["decode_tokens_per_s"]


def llama_bench(peer, model, threads, prompt, output, depth=0):
    rows = json.loads(run(peer / "llama-bench", "-m", model, "-t", threads, "-p", prompt,
                          "-n", output, "-d", depth, "-r", 1, "-o", "json"))
    return rows[0]["avg_ts"]


def peer_rates(peer, model, threads, batch, input_len, output_len, depth=0):
    if batch == 1:
        return (llama_bench(peer, model, threads, input_len, 0),
                llama_bench(peer, model, threads, 0, output_len, depth))
    lines = run(peer / "llama-batched-bench", "-m", model, "-t", threads, "-npp", input_len,
                "-ntg", output_len, "-npl", batch, "-c", batch * (input_len + output_len),
                "--output-format", "jsonl").splitlines()
    report = next(json.loads(line) for line in lines if line.startswith("{"))
    return report["speed_pp"], report["speed_tg"]


def compare(peer, model, args, batch, lengths, names, depth=0):
    ours, theirs = [], []
    for _ in range(args.rounds):
        ours.append(octavo_rates(model, args.threads, batch, *lengths))
        theirs.append(peer_rates(peer, model, args.threads, batch, *lengths, depth))
    for i, name in enumerate(names):
        mine, other = (statistics.median(rates[i] for rates in all_rates)
                       for all_rates in (ours, theirs))
        print(f"{model.name[:40]:40} {name:14} {mine:9.1f} {other:9.1f} {mine / other:6.2f}",
              flush=True)


def measure(peer, model, args):
    for batch in map(int, filter(None, args.batches.split(","))):
        lengths = ((args.input_len, args.output_len) if batch == 1
                   else (BATCH_TOKENS, BATCH_TOKENS))
        compare(peer, model, args, batch, lengths, (f"prefill {lengths[0]}", f"decode x{batch}"))
    if args.context:
        compare(peer, model, args, 1, (args.context, args.output_len),
                (f"prefill {args.context}", f"behind {args.context}"), args.context)


def shape_and_type(text):
    shape, _, kind = text.partition(":")
    if shape not in SHAPES or kind not in TYPES:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not SHAPE:TYPE of {', '.join(SHAPES)} and {', '.join(TYPES)}")
    return shape, kind


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--input-len", type=int, default=512)
    parser.add_argument("--output-len", type=int, default=64)
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("--quantize", default="")
    parser.add_argument("--random", default=[],
                        type=lambda text: list(map(shape_and_type, text.split(","))))
    parser.add_argument("--work", type=Path, default=WORK)
    args = parser.parse_args()
    if not args.models and (args.quantize or not args.random):
        parser.error("a model, or --random without --quantize, is needed")
    peer = Path(os.environ["LLAMA_CPP_BIN"]) if "LLAMA_CPP_BIN" in os.environ else build_peer()
    args.work.mkdir(parents=True, exist_ok=True)
    for kind in filter(None, args.quantize.split(",")):
        made = args.work / f"{args.models[0].stem}-{kind}.gguf"
        if not made.exists():
            run(peer / "llama-quantize", "--allow-requantize", args.models[0], made, kind)
        args.models.append(made)
    print(f"{'file':40} {'work':14} {'octavo':>9} {'llama.cpp':>9} {'ratio':>6}   tokens/s")
    for model in args.models:
        measure(peer, model, args)
    for shape, kind in args.random:
        model = args.work / f"random-{shape}-{kind}.gguf"
        try:
            write_model(model, shape, kind)
            measure(peer, model, args)
        finally:
            model.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
