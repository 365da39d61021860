"""`octavo bench serve` against the server, and against one of the test's own of known timing."""

import json
import math
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import OCTAVO, Server

PIECE_S = 0.02


class FakeServer(ThreadingHTTPServer):
    """Streams as many pieces as a request wants, one each PIECE_S; keeps what it was asked."""
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, break_off=(), fail=()):
        super().__init__(("127.0.0.1", 0), FakeHandler)
        self.lock = threading.Lock()
        self.bodies, self.times, self.headers = [], [], []
        self.running = self.most_running = 0
        self.break_off, self.fail = break_off, fail
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class FakeHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer(200, {"data": [{"id": "fake/model", "max_model_len": 1000}]})

    def write(self, text):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text.encode()))

    def event(self, body):
        self.write("data: " + json.dumps(body) + "\n\n")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            number = len(server.bodies)
            server.bodies.append((self.path, body))
            server.times.append(time.monotonic())
            server.headers.append(dict(self.headers))
            server.running += 1
            server.most_running = max(server.most_running, server.running)
        try:
            self.stream(number, body)
        finally:
            with server.lock:
                server.running -= 1

    def stream(self, number, body):
        if number in self.server.fail:
            return self.answer(503, {"error": {"message": "no room"}})
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        chat = "messages" in body
        if chat:
            self.event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        count = body.get("max_tokens") or body["max_completion_tokens"]
        for _ in range(count):
            time.sleep(PIECE_S)
            self.event({"choices": [{"delta": {"content": "x"}} if chat else {"text": "x"}]})
        if number in self.server.break_off:
            self.close_connection = True
            return None
        self.event({"choices": [], "usage": {"completion_tokens": count}})
        self.write("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")
        return None


def numpy_percentile(values, percent):
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    low, high = math.floor(at), math.ceil(at)
    return ordered[low] * (high - at) + ordered[high] * (at - low) if high > low else ordered[low]


class BenchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.tokenizer = Server.model()
        cls.folder = tempfile.TemporaryDirectory(prefix="octavo-bench-test-")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def bench(self, port, *flags, code=0, detailed=True):
        path = os.path.join(self.folder.name, "result.json")
        run = subprocess.run(
            [OCTAVO, "bench", "serve", "--port", str(port), "--tokenizer", self.tokenizer,
             "--save-result", "--result-filename", path,
             *(["--save-detailed"] if detailed else []), *flags],
            capture_output=True, text=True, timeout=300)
        self.assertEqual(run.returncode, code, run.stderr)
        if code != 0:
            return run.stderr
        with open(path, encoding="utf-8") as file:
            return run.stdout, json.load(file)

    def test_groups_have_figures_of_their_own(self):
        groups = json.dumps({"groups": [{"name": "a"}, {"name": "b", "weight": 2}]})
        with Server("--ab-config", groups) as server:
            text, result = self.bench(
                server.address[1], "--num-prompts", "24", "--random-input-len", "8",
                "--random-output-len", "3", "--max-concurrency", "8")
        parts = result["groups"]
        self.assertEqual(set(parts), {"a", "b"})
        for key in "completed", "total_input_tokens", "total_output_tokens":
            self.assertEqual(sum(part[key] for part in parts.values()), result[key], key)
        for name, part in parts.items():
            self.assertIn(f" Group {name} ", text)
            self.assertGreater(part["mean_ttft_ms"], 0)
            self.assertNotIn("ttfts", part)
        self.assertNotIn("groups", self.bench(
            self.server.address[1], "--num-prompts", "2", "--random-input-len", "8",
            "--random-output-len", "3")[1])

    def test_figures_are_those_of_the_streams(self):
        with FakeServer(fail=[3], break_off=[5]) as fake:
            text, result = self.bench(
                fake.server_port, "--num-prompts", "10", "--random-input-len", "30",
                "--random-output-len", "5", "--max-concurrency", "4", "--metric-percentiles",
                "50,99", "--percentile-metrics", "ttft,tpot,itl,e2el", "--goodput", "ttft:10000",
                "e2el:1")
            self.assertEqual(fake.most_running, 4)
            self.assertEqual(len(fake.bodies), 11)  # one to try
        self.assertEqual((result["completed"], result["failed"]), (8, 2))
        self.assertEqual(sorted(error[:9] for error in result["errors"] if error)[0], "HTTP 503:")
        self.assertIn("no room", "".join(result["errors"]))
        good = [i for i, error in enumerate(result["errors"]) if not error]
        self.assertEqual([result["output_lens"][i] for i in good], [5] * 8)
        self.assertEqual([result["generated_texts"][i] for i in good], ["xxxxx"] * 8)
        self.assertEqual(result["total_output_tokens"], 40)
        self.assertEqual(result["total_input_tokens"], 8 * 30)
        for i in good:
            self.assertEqual(len(result["itls"][i]), 4)
            self.assertGreaterEqual(result["ttfts"][i], PIECE_S * 0.9)
            self.assertGreaterEqual(result["latencies"][i], PIECE_S * 4.9)
        values = {
            "ttft": [result["ttfts"][i] for i in good],
            "itl": [gap for i in good for gap in result["itls"][i]],
            "tpot": [(result["latencies"][i] - result["ttfts"][i]) / 4 for i in good],
            "e2el": [result["latencies"][i] for i in good],
        }
        for name, seconds in values.items():
            expected = {"mean": statistics.mean(seconds), "median": statistics.median(seconds),
                        "std": statistics.pstdev(seconds), "p50": statistics.median(seconds),
                        "p99": numpy_percentile(seconds, 99)}
            for key, value in expected.items():
                self.assertAlmostEqual(result[f"{key}_{name}_ms"], value * 1000, 6)
            self.assertIn(f"{f'Mean {name.upper()} (ms):':<40} "
                          f"{statistics.mean(seconds) * 1000:<10.2f}\n", text)
        duration = result["duration"]
        self.assertAlmostEqual(result["request_throughput"], 8 / duration, 6)
        self.assertAlmostEqual(result["output_throughput"], 40 / duration, 6)
        self.assertAlmostEqual(result["total_token_throughput"], 280 / duration, 6)
        self.assertEqual(result["request_goodput"], 0)  # nothing takes 1 ms only

    def test_the_block_has_the_lines_that_scripts_look_for(self):
        with FakeServer() as fake:
            text, result = self.bench(fake.server_port, "--num-prompts", "3", "--request-rate",
                                      "50", "--output-len", "2", "--input-len", "5")
        labels = [line[:40].rstrip() for line in text.splitlines() if ":" in line]
        self.assertEqual(labels, [
            "Successful requests:", "Failed requests:", "Request rate configured (RPS):",
            "Benchmark duration (s):", "Total input tokens:", "Total generated tokens:",
            "Request throughput (req/s):", "Output token throughput (tok/s):",
            "Peak output token throughput (tok/s):", "Peak concurrent requests:",
            "Total token throughput (tok/s):",
            "Mean TTFT (ms):", "Median TTFT (ms):", "P99 TTFT (ms):",
            "Mean TPOT (ms):", "Median TPOT (ms):", "P99 TPOT (ms):",
            "Mean ITL (ms):", "Median ITL (ms):", "P99 ITL (ms):"])
        lines = text.splitlines()
        self.assertEqual(lines[0], " Serving Benchmark Result ".center(50, "="))
        self.assertEqual(lines[-1], "=" * 50)
        self.assertIn("Time to First Token".center(50, "-"), lines)
        self.assertEqual(result["request_rate"], 50)
        self.assertIsNone(result["max_concurrency"])
        self.assertTrue(re.fullmatch(r"\d{8}-\d{6}", result["date"]))

    def test_only_save_detailed_keeps_a_value_for_each_request(self):
        with FakeServer() as fake:
            _, result = self.bench(fake.server_port, "--num-prompts", "3", "--output-len", "1",
                                   "--input-len", "5", detailed=False)
        self.assertEqual(result["completed"], 3)
        self.assertEqual([key for key, value in result.items() if isinstance(value, list)], [])

    def test_requests_carry_what_flags_say(self):
        with FakeServer() as fake:
            self.bench(fake.server_port, "--num-prompts", "1", "--backend", "openai-chat",
                       "--temperature", "0.5", "--extra-body", '{"top_k": 7}', "--header",
                       "X-A=b", "X-C=d", "--output-len", "2", "--served-model-name", "other")
            path, body = fake.bodies[-1]
            headers = fake.headers[-1]
        self.assertEqual(path, "/v1/chat/completions")
        self.assertEqual((body["temperature"], body["top_k"], body["model"]), (0.5, 7, "other"))
        self.assertEqual((body["max_completion_tokens"], body["ignore_eos"]), (2, True))
        self.assertEqual(body["stream_options"], {"include_usage": True})
        self.assertEqual((headers["X-A"], headers["X-C"]), ("b", "d"))

    def test_arrivals_follow_the_rate(self):
        with FakeServer() as fake:
            self.bench(fake.server_port, "--num-prompts", "200", "--request-rate", "100",
                       "--output-len", "1", "--input-len", "3")
            times = fake.times[1:]
        gaps = [b - a for a, b in zip(times, times[1:])]
        self.assertTrue(1.5 < times[-1] - times[0] < 4)  # a busy machine may be late
        # The gaps of a Poisson process spread as much as they are long.
        self.assertGreater(statistics.pstdev(gaps), 0.5 * statistics.mean(gaps))

    def test_a_trace_is_played_at_its_own_times(self):
        path = os.path.join(self.folder.name, "trace.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for at, length, ids in (0, 600, [1, 2]), (500, 520, [1, 3]), (600, 2000, [4]):
                file.write(json.dumps({"timestamp": at, "input_length": length,
                                       "output_length": 3, "hash_ids": ids}) + "\n")
        with FakeServer() as fake:
            _, result = self.bench(fake.server_port, "--dataset-name", "trace", "--dataset-path",
                                   path)
            prompts = [body["prompt"] for _, body in fake.bodies[1:]]
            gap = fake.times[2] - fake.times[1]
        self.assertEqual(result["completed"], 2)  # the third is longer than the model's context
        self.assertEqual([len(prompt) for prompt in prompts], [600, 520])
        self.assertEqual(prompts[0][:512], prompts[1][:512])
        self.assertNotEqual(prompts[0][512:520], prompts[1][512:])
        self.assertTrue(0.25 < gap < 2, gap)  # a busy machine may be late with either

    def test_prefixes_are_shared(self):
        with FakeServer() as fake:
            self.bench(fake.server_port, "--dataset-name", "prefix_repetition", "--num-prompts",
                       "12", "--prefix-repetition-num-prefixes", "3", "--output-len", "1",
                       "--prefix-repetition-prefix-len", "20",
                       "--prefix-repetition-suffix-len", "5")
            prompts = [body["prompt"] for _, body in fake.bodies[1:]]
        self.assertEqual(len(set(prompts)), 12)
        self.assertEqual(len({" ".join(prompt.split()[:20]) for prompt in prompts}), 3)

    def test_sharegpt_conversations(self):
        path = os.path.join(self.folder.name, "sharegpt.json")
        turns = [{"from": "human", "value": "Tell me about the sea, please."},
                 {"from": "gpt", "value": "The sea is wide and blue and deep."}]
        with open(path, "w", encoding="utf-8") as file:
            json.dump([{"conversations": turns}, {"conversations": turns[:1]},
                       {"conversations": [{"value": "Hi"}, {"value": "Hi"}]}], file)
        with FakeServer() as fake:
            _, result = self.bench(fake.server_port, "--dataset-name", "sharegpt",
                                   "--dataset-path", path, "--num-prompts", "3")
            prompts = {body["prompt"] for _, body in fake.bodies}
        self.assertEqual(prompts, {turns[0]["value"]})
        self.assertEqual(result["completed"], 3)
        answer = self.server.post("/tokenize", {"prompt": turns[1]["value"]})[1]
        self.assertEqual(set(result["output_lens"]), {answer["count"]})

    def test_lengths_are_those_the_server_counts(self):
        before = self.server.metric("vllm:prompt_tokens_total")
        _, result = self.bench(self.server.address[1], "--num-prompts", "20",
                               "--random-input-len", "50", "--random-output-len", "8",
                               "--random-range-ratio", "0.5")
        self.assertEqual(result["completed"], 20)
        first = result["input_lens"][0]  # sent once more, to try
        counted = self.server.metric("vllm:prompt_tokens_total") - before
        self.assertEqual(counted, result["total_input_tokens"] + first)
        self.assertTrue(all(25 <= length <= 75 for length in result["input_lens"]))
        self.assertGreater(len(set(result["input_lens"])), 5)
        self.assertTrue(all(4 <= length <= 12 for length in result["output_lens"]))

    def test_what_is_wrong_is_said(self):
        with FakeServer(fail=range(100)) as fake:
            self.assertIn("no room", self.bench(fake.server_port, code=1))
            for flags, name in ((["--goodput", "x:1"], "--goodput"),
                                (["--metric-percentiles", "101"], "--metric-percentiles"),
                                (["--percentile-metrics", "speed"], "--percentile-metrics"),
                                (["--num-prompts", "0"], "--num-prompts"),
                                (["--random-range-ratio", "1"], "--random-range-ratio"),
                                (["--request-rate", "nan"], "--request-rate"),
                                (["--dataset-name", "trace"], "--dataset-path")):
                with self.subTest(flags=flags):
                    self.assertIn(name, self.bench(fake.server_port, *flags, code=2))
            port = fake.server_port
        self.assertIn("connect", self.bench(port, code=1).lower())


if __name__ == "__main__":
    unittest.main()
