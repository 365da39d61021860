#!/usr/bin/env python3
"""What HTTP costs, and llama.cpp's server beside octavo's, on the same model and work.

    bench/peers/llama_server.py [MODEL.gguf] [--rounds 3] [--threads 2] [--concurrency 32]
                                [--num-prompts 64] [--input-len 128] [--output-len 128]
                                [--servers-only]

In each round, one after the other: `octavo bench throughput` without HTTP, `octavo serve` under
`octavo bench serve` with as many requests at once, one client alone, which shows what HTTP adds to
the first token, and llama-server under the same client, where LLAMA_CPP_BIN names a folder that has
one. --servers-only leaves out what is not HTTP under load. Prompts are random token ids, answers
greedy and of one length; neither server looks for cached prefixes. Rows are medians of rounds.
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


def ask(args, url, report, concurrency, num_prompts, output_len):
    run(OCTAVO, "bench", "serve", "--base-url", url, "--model", "default", "--tokenizer",
        args.model, "--dataset-name", "random", "--random-input-len", args.input_len,
        "--random-output-len", output_len, "--num-prompts", num_prompts,
        "--max-concurrency", concurrency, "--ignore-eos", "--temperature", 0, "--save-result",
        "--save-detailed", "--result-dir", report.parent, "--result-filename", report.name)
    figures = json.loads(report.read_text())
    if figures["failed"]:
        sys.exit(f"{url}: {figures['failed']} requests failed: {set(figures['errors'])}")
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
    """As many slots as requests, each with the context that one needs; no prompt is kept."""
    context = args.concurrency * (args.input_len + args.output_len + 16)
    return Server(binary, "--model", args.model, "--alias", "default", "--threads", args.threads,
                  "--parallel", args.concurrency, "--ctx-size", context, "--no-cache-prompt",
                  "--cache-ram", 0)


def load(args, url, report):
    ask(args, url, report, args.concurrency, args.concurrency, 4)  # warms up
    figures = ask(args, url, report, args.concurrency, args.num_prompts, args.output_len)
    return figures["output_throughput"]


def first_token_ms(args, url, report):
    """What a client alone waits for its first token beyond the engine's own time."""
    sum_before, count_before = first_token_s(url)
    figures = ask(args, url, report, 1, 8, args.output_len)
    sum_after, count_after = first_token_s(url)
    return figures["mean_ttft_ms"] - 1000 * (sum_after - sum_before) / (count_after - count_before)


def one_round(args, peer, report, rates):
    if not args.servers_only:
        rates["bench throughput"].append(engine_rate(args, report))
    with octavo_server(args) as url:
        rates["octavo serve"].append(load(args, url, report))
        if not args.servers_only:
            rates["first token"].append(first_token_ms(args, url, report))
    if peer:
        with llama_server(args, peer) as url:
            rates["llama-server"].append(load(args, url, report))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    default_model = Path.home() / ".cache/octavo/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    parser.add_argument("model", nargs="?", default=default_model)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--num-prompts", type=int, default=64)
    parser.add_argument("--input-len", type=int, default=128)
    parser.add_argument("--output-len", type=int, default=128)
    parser.add_argument("--servers-only", action="store_true")
    args = parser.parse_args()
    folder = os.environ.get("LLAMA_CPP_BIN")
    peer = Path(folder) / "llama-server" if folder else None
    rates = {name: [] for name in ("bench throughput", "octavo serve", "llama-server",
                                   "first token")}
    with tempfile.TemporaryDirectory(prefix="octavo-bench-") as work:
        for _ in range(args.rounds):
            one_round(args, peer, Path(work) / "report.json", rates)
    middle = {name: statistics.median(values) for name, values in rates.items() if values}
    first_token = middle.pop("first token", None)
    print(f"{Path(args.model).name}, {args.concurrency} at once, {args.input_len} + "
          f"{args.output_len} tokens, {args.threads} threads")
    for name, rate in middle.items():
        print(f"{name:<18} {rate:8.1f} tokens/s  {rate / middle['octavo serve']:6.3f}")
    if first_token is not None:
        print(f"{'first token':<18} {first_token:8.2f} ms beyond the engine's, one client alone")
    if peer:
        print(f"octavo serve has {middle['octavo serve'] / middle['llama-server']:.2f} times the "
              f"rate of llama-server")


if __name__ == "__main__":
    main()
