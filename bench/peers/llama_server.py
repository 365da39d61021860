#!/usr/bin/env python3
"""What HTTP costs, and llama.cpp's server beside octavo's, on the same model and work.

    bench/peers/llama_server.py [MODEL.gguf] [--rounds 3] [--threads 2] [--concurrency 32]
                                [--num-prompts 64] [--input-len 64] [--output-len 64]

In each round, one after the other: `octavo bench throughput` without HTTP, `octavo serve` under
`octavo bench serve` with as many requests at once, and llama-server under the same client, where
LLAMA_CPP_BIN names a folder that has one. Prompts are random token ids, answers greedy and of one
length. One client alone then shows what HTTP adds to the first token. Rows are medians of rounds.
"""

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OCTAVO = os.environ.get("OCTAVO_BINARY", ROOT / "build" / "cpu" / "octavo")
START_S = 120


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr}")


def read(url):
    with urllib.request.urlopen(url, timeout=30) as response:
        return response.read().decode()


def engine_rate(args, report):
    run(OCTAVO, "bench", "throughput", args.model, "--threads", args.threads, "--max-num-seqs",
        args.concurrency, "--num-prompts", args.num_prompts, "--input-len", args.input_len,
        "--output-len", args.output_len, "--temperature", 0, "--no-enable-prefix-caching",
        "--output-json", report)
    figures = json.loads(report.read_text())
    return figures["output_tokens_per_second"]


def ask(args, url, report, concurrency, num_prompts):
    run(OCTAVO, "bench", "serve", "--base-url", url, "--model", "default", "--tokenizer",
        args.model, "--dataset-name", "random", "--random-input-len", args.input_len,
        "--random-output-len", args.output_len, "--num-prompts", num_prompts,
        "--max-concurrency", concurrency, "--ignore-eos", "--temperature", 0, "--save-result",
        "--result-dir", report.parent, "--result-filename", report.name)
    figures = json.loads(report.read_text())
    if figures["failed"]:
        sys.exit(f"{url}: {figures['failed']} requests failed: {figures['errors']}")
    return figures


def first_token_s(url):
    """The engine's own, from metrics: waiting and prefill, summed over requests, and how many."""
    text, names = read(url + "/metrics"), ("queue", "prefill")
    sums = [re.search(rf"(?m)^vllm:request_{name}_time_seconds_sum{{.*}} (\S+)", text)
            for name in names]
    count = re.search(r"(?m)^vllm:request_prefill_time_seconds_count{.*} (\S+)", text)
    return sum(float(found[1]) for found in sums), float(count[1])


class Server:
    def __init__(self, *command):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([*map(str, command), "--host", "127.0.0.1", "--port",
                                         str(port)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def __enter__(self):
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                read(self.url + "/health")
                return self.url
            except OSError:
                time.sleep(0.1)
        self.__exit__()
        sys.exit(f"{self.process.args[0]} did not start")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def octavo_server(args):
    return Server(OCTAVO, "serve", args.model, "--served-model-name", "default", "--threads",
                  args.threads, "--max-num-seqs", args.concurrency, "--no-enable-prefix-caching",
                  "--disable-uvicorn-access-log")


def llama_server(args, binary):
    context = args.concurrency * (args.input_len + args.output_len + 16)
    return Server(binary, "--model", args.model, "--threads", args.threads, "--parallel",
                  args.concurrency, "--ctx-size", context, "--no-cache-prompt")


def one_round(args, peer, report, rates):
    rates["bench throughput"].append(engine_rate(args, report))
    with octavo_server(args) as url:
        ask(args, url, report, args.concurrency, args.concurrency)  # warms up
        figures = ask(args, url, report, args.concurrency, args.num_prompts)
        rates["octavo serve"].append(figures["output_throughput"])
        sum_before, count_before = first_token_s(url)
        figures = ask(args, url, report, 1, 8)
        sum_after, count_after = first_token_s(url)
        engine_ms = 1000 * (sum_after - sum_before) / (count_after - count_before)
        rates["first token"].append(figures["mean_ttft_ms"] - engine_ms)
    if peer:
        with llama_server(args, peer) as url:
            ask(args, url, report, args.concurrency, args.concurrency)
            figures = ask(args, url, report, args.concurrency, args.num_prompts)
            rates["llama-server"].append(figures["output_throughput"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    default_model = Path.home() / ".cache/octavo/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    parser.add_argument("model", nargs="?", default=default_model)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--num-prompts", type=int, default=64)
    parser.add_argument("--input-len", type=int, default=64)
    parser.add_argument("--output-len", type=int, default=64)
    args = parser.parse_args()
    folder = os.environ.get("LLAMA_CPP_BIN")
    peer = Path(folder) / "llama-server" if folder else None
    rates = {name: [] for name in ("bench throughput", "octavo serve", "llama-server",
                                   "first token")}
    with tempfile.TemporaryDirectory(prefix="octavo-bench-") as work:
        for _ in range(args.rounds):
            one_round(args, peer, Path(work) / "report.json", rates)
    middle = {name: statistics.median(values) for name, values in rates.items() if values}
    first_token_ms = middle.pop("first token")
    for name, rate in middle.items():
        print(f"{name:<18} {rate:8.1f} tokens/s  {rate / middle['bench throughput']:6.3f}")
    print(f"{'first token':<18} {first_token_ms:8.2f} ms beyond the engine's, one client alone")


if __name__ == "__main__":
    main()
