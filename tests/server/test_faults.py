"""Clients that are killed, malformed or hostile: each gets a clean 4xx or a closed connection, and
nothing of the server is lost to them. OCTAVO_TEST_REQUESTS sets how many random requests are sent.
"""

import concurrent.futures
import json
import math
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

from harness import Server

NUM_RANDOM = int(os.environ.get("OCTAVO_TEST_REQUESTS", "5000"))
SEED = int(os.environ.get("OCTAVO_TEST_SEED", "1"))
SHORT = {"prompt": "Once", "max_tokens": 1, "temperature": 0}
LONG = {"prompt": "Once upon a time", "max_tokens": 240, "ignore_eos": True, "stream": True}

# A process that opens streams, says so, and never reads on: to be killed.
VICTIM = """
import json, socket, sys, time
body = json.dumps(json.loads(sys.argv[2])).encode()
head = b"POST /v1/completions HTTP/1.1\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body)
socks = []
for _ in range(20):
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    sock.sendall(head + body)
    socks.append(sock)
for sock in socks:
    sock.recv(100)
print("ready", flush=True)
time.sleep(600)
"""

NUMERIC_FIELDS = (
    "max_tokens", "temperature", "top_p", "top_k", "min_p", "presence_penalty",
    "frequency_penalty", "repetition_penalty", "seed", "n", "logprobs", "min_tokens", "priority",
    "prompt_logprobs", "truncate_prompt_tokens", "stop_token_ids", "allowed_token_ids",
    "logit_bias", "best_of", "length_penalty", "stream_options")
CHAT_FIELDS = ("max_completion_tokens", "max_tokens", "top_logprobs", "temperature", "seed", "n")
BAD_VALUES = (
    "NaN", "-NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e308", "-1e308", "1e-320",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551616",
    "2147483648", "-2147483649", "1" * 4000, "0.1", "-1", "-0", "0", "true", '"1"', "[1e308]",
    "[-1]", "[9223372036854775807]", '{"0": 1e308}', '{"99999999999": 1}', '{"1": NaN}',
    "0x10", "1.", ".5", "+1", "1e", "--1")


def message(body, path="/v1/completions"):
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def split_answer(data):
    """Status and body of a response, or None where the connection was closed without one."""
    if not data:
        return None, b""
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 "), data[:100]
    return int(head[9:12]), body


class RandomRequests:
    """Requests that begin as good ones and are damaged in one to four places."""

    GOOD = (
        {"prompt": "Once", "max_tokens": 2, "temperature": 0.5, "stop": ["a"], "logprobs": 2},
        {"prompt": [1, 2, 3], "max_tokens": 1, "n": 2, "seed": 3, "stream": True},
        {"prompt": ["a", "b"], "max_tokens": 1, "logit_bias": {"5": 1.5}, "echo": True},
        {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "stream": True,
         "stream_options": {"include_usage": True}},
        {"messages": [{"role": "system", "content": [{"type": "text", "text": "é\u20ac"}]},
                      {"role": "user", "content": "x"}], "max_tokens": 1, "logprobs": True},
        {"prompt": "héllo", "add_special_tokens": True}, {"tokens": [1, 2, 3]})
    PATHS = ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize", "/generate",
             "/v1/models", "/nowhere", "/metrics", "/v1/completions?a=b", "/%2e%2e/", "*")
    WORDS = (b"\0", b"\xff", b"\xc3", b"\r\n", b"\r\n\r\n", b"\n", b"{", b"}", b"[", b"]", b'"',
             b"\\u0000", b"\\ud800", b"\\", b"null", b"-1", b"1e999", b"NaN", b"true", b":", b",",
             b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"ffffffffffffffff\r\n",
             b"Expect: 100-continue\r\n", b"X: " + b"y" * 3000 + b"\r\n", b"HTTP/1.1", b" ")
    VALUES = (None, True, -1, 0, 1e300, 2 ** 63, "", "x" * 1000, [], {}, [[]], [None], {"a": {}},
              ["a", 1], "\ud800", "\0", 1.5)

    def __init__(self, seed):
        self.random = random.Random(seed)

    def damage_json(self, value):
        pick = self.random
        if isinstance(value, (dict, list)) and value and pick.random() < 0.8:
            key = pick.choice(list(value) if isinstance(value, dict) else range(len(value)))
            copy = value.copy()
            copy[key] = self.damage_json(value[key])
            return copy
        if isinstance(value, dict) and pick.random() < 0.5:
            return {**value, pick.choice(NUMERIC_FIELDS): pick.choice(self.VALUES)}
        return pick.choice(self.VALUES)

    def damage_bytes(self, data):
        pick = self.random
        at = pick.randrange(len(data) + 1)
        end = min(len(data), at + pick.choice((0, 0, 1, 1, 2, 8, 40)))
        word = pick.choice(self.WORDS) if pick.random() < 0.7 else pick.randbytes(3)
        return data[:at] + word + data[end:]

    def next(self):
        pick = self.random
        body = pick.choice(self.GOOD)
        for _ in range(pick.randrange(3)):
            body = self.damage_json(body)
        data = json.dumps(body).encode()
        if pick.random() < 0.3:
            data = self.damage_bytes(data)
        data = message(data, pick.choice(self.PATHS))
        for _ in range(pick.choice((0, 0, 1, 1, 2, 4))):
            data = self.damage_bytes(data)
        return data[:pick.randrange(len(data))] if pick.random() < 0.1 else data


class FaultTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--disable-uvicorn-access-log", "--max-model-len", "256",
                            "--max-num-queued-reqs", "100000")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def num_descriptors(self):
        return len(os.listdir(f"/proc/{self.server.process.pid}/fd"))

    def memory(self, key):
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(key)) << 10

    def cpu_s(self):
        with open(f"/proc/{self.server.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")  # user, system

    def setUp(self):
        self.assertEqual(self.server.post("/v1/completions", SHORT)[0], 200)
        self.before = self.num_descriptors()

    def tearDown(self):
        """Whatever came, the server is as it was."""
        self.assertIsNone(self.server.process.poll(), "".join(self.server.log[-50:]))
        self.assertTrue(self.server.wait_idle(60))
        self.assertEqual(self.server.get("/health")[0], 200)
        self.assertEqual(json.loads(self.server.get("/load")[2])["server_load"], 0)
        self.assertEqual(self.server.post("/v1/completions", SHORT)[0], 200)
        end = time.monotonic() + 30
        while self.num_descriptors() > self.before and time.monotonic() < end:
            time.sleep(0.05)
        self.assertLessEqual(self.num_descriptors(), self.before)

    def exchange(self, data, timeout=300):
        with self.server.connect(timeout) as sock:
            answer = b""
            try:
                sock.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            try:
                while part := sock.recv(65536):
                    answer += part
            except ConnectionResetError:
                pass
            return split_answer(answer)

    def check_refused(self, data):
        status, body = self.exchange(data)
        self.assertEqual(status, 400, data[:200])
        self.assertEqual(json.loads(body)["error"]["code"], 400)

    def test_killed_clients_leave_nothing(self):
        victim = subprocess.Popen(
            [sys.executable, "-c", VICTIM, str(self.server.address[1]), json.dumps(LONG)],
            stdout=subprocess.PIPE, text=True)
        with victim:
            ready = victim.stdout.readline()
            while ready and self.server.metric("vllm:num_requests_running") == 0:
                time.sleep(0.01)
            victim.send_signal(signal.SIGKILL)
        self.assertEqual(ready, "ready\n")
        self.assertTrue(self.server.wait_idle(20))

    def test_resets_in_every_state(self):
        """A connection that is reset, not closed: after n bytes of a request, or in its answer."""
        data = message(json.dumps(LONG).encode())
        for size in (0, 1, 20, len(data) - 1, len(data)):
            for wait in (0, 0.05):
                sock = self.server.connect()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.sendall(data[:size])
                time.sleep(wait)
                sock.close()

    def test_connections_that_stay_open(self):
        """Some that send nothing, some that send a byte now and then: others are served."""
        silent = [self.server.connect() for _ in range(200)]
        slow = [self.server.connect() for _ in range(50)]
        data = message(json.dumps(SHORT).encode())
        for i in range(20):
            for sock in slow:
                sock.sendall(data[i:i + 1])
            begin = time.monotonic()
            self.assertEqual(self.server.get("/health")[0], 200)
            self.assertLess(time.monotonic() - begin, 5)
        for sock in silent + slow:
            sock.close()

    def test_half_closed_connections(self):
        for data in b"", b"POST", message(json.dumps(SHORT).encode()):
            with self.server.connect() as sock:
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass

    def test_bad_numbers_in_every_field(self):
        def send(case):
            path, base, field, value = case
            body = base[:-1] + f', "{field}": {value}}}'
            return case, self.exchange(message(body.encode(), path))

        cases = [("/v1/completions", '{"prompt": "a"}', field, value)
                 for field in NUMERIC_FIELDS for value in BAD_VALUES]
        cases += [("/v1/chat/completions", '{"messages": [{"role": "user", "content": "a"}]}',
                   field, value) for field in CHAT_FIELDS for value in BAD_VALUES
                  if "max" in field]
        cases += [("/v1/completions", "{}", "prompt", f"[{value}]") for value in BAD_VALUES]
        cases += [("/detokenize", "{}", "tokens", f"[{value}]") for value in BAD_VALUES]
        cases = [(path, base.replace("{}", '{"x": 1}'), f, v) for path, base, f, v in cases]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for (path, _, field, value), (status, body) in pool.map(send, cases):
                with self.subTest(path=path, field=field, value=value[:30]):
                    self.assertIn(status, (200, 400))
                    answer = json.loads(body)
                    if status == 400:
                        self.assertTrue(answer["error"]["message"])
                    try:
                        number = json.loads(value)
                    except json.JSONDecodeError:
                        self.assertEqual(status, 400)  # no JSON at all
                        continue
                    has_effect = field not in ("best_of", "length_penalty")
                    if has_effect and isinstance(number, float) and not math.isfinite(number):
                        self.assertEqual(status, 400)

    def test_deep_json(self):
        for opening, closing in ("[", "]"), ('{"a":', "}"):
            for depth in 127, 129, 1000, 100000:
                inner = opening * depth + "1" + closing * depth
                for body in inner, '{"prompt": %s}' % inner, '{"x": %s, "prompt": 5}' % inner:
                    self.check_refused(message(body.encode()))

    def test_bytes_that_are_no_text(self):
        for text in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\xe2\x82",
                     b"\x80" * 1000):
            for path, body in (("/v1/completions", b'{"prompt": "%s", "max_tokens": 1}'),
                               ("/tokenize", b'{"prompt": "%s"}'),
                               ("/v1/chat/completions",
                                b'{"messages": [{"role": "user", "content": "%s"}],'
                                b' "max_tokens": 1}')):
                with self.subTest(text=text[:5], path=path):
                    self.check_refused(message(body % text, path))
        # A half of a surrogate pair is no character either.
        status, body = self.exchange(message(b'{"prompt": "\\ud800", "max_tokens": 1}'))
        self.assertIn(status, (200, 400))
        json.loads(body.decode("utf-8"))

    def test_many_stop_strings(self):
        begin = time.monotonic()
        stops = [f"stop {i} " + "x" * (i % 50) for i in range(10000)]
        status, body = self.server.post("/v1/completions", {**SHORT, "max_tokens": 50,
                                                            "stop": stops})
        self.assertIn(status, (200, 400), body)
        for stop in ("a" * 1000000, ["a" * 100000] * 20, [""], [["a"]]):
            status, body = self.server.post("/v1/completions", {**SHORT, "stop": stop})
            self.assertIn(status, (200, 400), body)
        self.assertLess(time.monotonic() - begin, 30)

    def test_a_body_of_100_megabytes(self):
        peak = self.memory("VmHWM")
        size = 100 << 20
        head = f"POST /v1/completions HTTP/1.1\r\nContent-Length: {size}\r\n\r\n".encode()
        self.assertEqual(self.exchange(head)[0], 413)
        self.assertEqual(self.exchange(head + b"x" * size)[0], 413)
        chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        self.assertEqual(self.exchange(chunked + chunk * 100)[0], 413)
        self.assertLess(self.memory("VmHWM") - peak, 200 << 20)

    def test_a_prompt_that_is_far_too_long(self):
        """Of the largest body that is taken: refused for little, while others are served."""
        text = "word " * (6 << 20)
        begin_cpu_s = self.cpu_s()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(self.server.post, path, body) for path, body in (
                ("/v1/completions", {"prompt": text}),
                ("/v1/completions", {"prompt": text.replace(" ", "")}),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]}))]
            while not all(answer.done() for answer in answers):
                self.assertEqual(self.server.post("/v1/completions", SHORT)[0], 200)
            for answer in answers:
                status, body = answer.result()
                self.assertEqual(status, 400)
                self.assertIn("maximum context length", body["error"]["message"])
        self.assertLess(self.cpu_s() - begin_cpu_s, 4)  # tokenizing them would take far more

    def test_random_requests(self):
        generator = RandomRequests(SEED)
        requests = [generator.next() for _ in range(NUM_RANDOM)]

        def send(request):
            # Some wait for more bytes, as they may: a while is enough to see what they answer.
            with self.server.connect(0.3) as sock:
                answer = b""
                try:
                    sock.sendall(request)
                    while part := sock.recv(65536):
                        answer += part
                except (BrokenPipeError, ConnectionResetError, TimeoutError):
                    pass
                return request, answer

        statuses = {}
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for request, answer in pool.map(send, requests):
                while answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"):
                    answer = answer[25:]
                status, _ = split_answer(answer)
                statuses[status] = statuses.get(status, 0) + 1
                self.assertTrue(status is None or status < 500, (request, answer[:500]))
        # Of all kinds there were some, or the requests were no good.
        self.assertGreater(statuses.get(200, 0), 0, statuses)
        self.assertGreater(statuses.get(400, 0), NUM_RANDOM // 10, statuses)


if __name__ == "__main__":
    unittest.main()
