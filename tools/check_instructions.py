#!/usr/bin/env python3
"""Counts the instructions of small fixed runs and holds them against bench/instructions.json.

    tools/check_instructions.py [--octavo build/cpu/octavo] [--update]

A guard against kernels that become slower, which no noisy neighbour can trip: callgrind counts what
ModelRunner::forward executes with the AVX2 kernels and one thread (valgrind 3.19 does not know
AVX-512). More than 5 % above the baseline is an error, more than 5 % below asks for --update, which
writes the baseline anew. Counts belong to one compiler: GCC 12.2, Debian 12's.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from make_random_gguf import write_model

ROOT = Path(__file__).resolve().parents[1]
BASELINE = ROOT / "bench" / "instructions.json"
TOLERANCE = 0.05
TYPES = ("Q4_0", "Q8_0", "Q4_K", "BF16")
# Name: prompt, answer, sequences at once.
RUNS = {"prefill of 64": (64, 1, 1), "decode": (4, 16, 1), "decode x8": (4, 4, 8)}
LONG = {"prefill of 320": (320, 1, 1), "decode at 320": (320, 16, 1)}  # for attention


def count(octavo, folder, kind, run):
    prompt, answer, batch = run
    out = Path(folder) / f"{kind}-{prompt}-{answer}-{batch}.out"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
               "--toggle-collect=octavo::engine::ModelRunner::forward(*", octavo, "bench",
               "latency", Path(folder) / f"{kind}.gguf", "--threads", 1, "--num-iters", 1,
               "--input-len", prompt, "--output-len", answer, "--batch-size", batch]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                          env={**os.environ, "OCTAVO_KERNELS": "avx2"})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr}")
    return next(int(line.split()[1]) for line in out.read_text().splitlines()
                if line.startswith(("summary:", "totals:")))


def measure(octavo):
    rows = [(kind, name, run) for kind in TYPES for name, run in RUNS.items()]
    rows += [("Q8_0", name, run) for name, run in LONG.items()]
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for kind in TYPES:
            write_model(Path(folder) / f"{kind}.gguf", "tiny", kind)
        counts = pool.map(lambda row: count(octavo, folder, row[0], row[2]), rows)
        return {f"{kind}, {name}": found for (kind, name, _), found in zip(rows, counts)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--octavo", default=ROOT / "build" / "cpu" / "octavo")
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    found = measure(args.octavo)
    if args.update:
        BASELINE.write_text(json.dumps(found, indent=2) + "\n")
        return
    baseline = json.loads(BASELINE.read_text())
    if baseline.keys() != found.keys():
        sys.exit(f"{BASELINE} has other runs than this script: --update")
    slower = False
    for name, instructions in found.items():
        change = instructions / baseline[name] - 1
        slower = slower or change > TOLERANCE
        remark = ""
        if change > TOLERANCE:
            remark = "   SLOWER"
        elif change < -TOLERANCE:
            remark = "   faster: --update keeps it so"
        print(f"{name:24} {instructions:13,} instructions, {change:+6.1%}{remark}")
    if slower:
        sys.exit(f"more than {TOLERANCE:.0%} above {BASELINE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
