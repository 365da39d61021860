"""What the network can do to a server: garbage, floods, clients that leave or do not read."""

import concurrent.futures
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

from harness import OCTAVO, Server

LONG = {"prompt": "Once upon a time", "max_tokens": 2000, "ignore_eos": True, "temperature": 0}
SHORT = {"prompt": "Once", "max_tokens": 2, "temperature": 0}


def raw_request(body, path="/v1/completions", headers=""):
    data = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


def read_response(sock_file):
    """Status, headers, body with a Content-Length."""
    status = int(sock_file.readline().split()[1])
    headers = {}
    while (line := sock_file.readline().strip()):
        name, value = line.decode().split(": ", 1)
        headers[name.lower()] = value
    return status, headers, sock_file.read(int(headers.get("content-length", 0)))


def read_all(sock):
    data = b""
    try:
        while (part := sock.recv(65536)):
            data += part
    except ConnectionResetError:
        pass
    return data


class HttpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-body-size", "1M")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def alive(self):
        status, body = self.server.post("/v1/completions", SHORT)
        self.assertEqual(status, 200, body)

    def test_garbage_is_answered_or_closed(self):
        for garbage in (b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 50,
                        b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 1\r\n"
                        b"Content-Length: 2\r\n\r\nxx",
                        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\n"
                        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                        bytes(range(256)) * 10):
            with self.subTest(garbage=garbage[:40]), self.server.connect() as sock:
                sock.sendall(garbage)
                sock.shutdown(socket.SHUT_WR)
                answer = read_all(sock)
                self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:80])
        self.alive()

    def test_bad_json_is_a_bad_request(self):
        for body in (b"", b"{", b"[]", b"nul", b'{"prompt": "x"', b'{"prompt": "\xff"}x',
                     b"[" * 100000, b'{"a":' * 5000, b'{"prompt": "x", "temperature": NaN}'):
            with self.subTest(body=body[:20]):
                status, _, data = self.server.request("POST", "/v1/completions", body)
                self.assertEqual(status, 400)
                self.assertEqual(json.loads(data)["error"]["type"], "BadRequestError")
        self.alive()

    def test_large_bodies_and_headers_are_refused(self):
        with self.server.connect() as sock:
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n")
            self.assertTrue(read_all(sock).startswith(b"HTTP/1.1 413"))
        with self.server.connect() as sock:
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            try:
                for _ in range(40):
                    sock.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.assertTrue(read_all(sock).startswith(b"HTTP/1.1 413"))
        with self.server.connect() as sock:
            try:
                sock.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (200 << 10))
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.assertTrue(read_all(sock).startswith(b"HTTP/1.1 431"))
        self.alive()

    def test_bodies_in_chunks_and_pieces(self):
        body = json.dumps(SHORT).encode()
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = b"".join(b"%x\r\n%s\r\n" % (1, body[i:i + 1]) for i in range(len(body)))
        message = head + chunks + b"0\r\n\r\n"
        with self.server.connect() as sock:
            for i in range(0, len(message), 7):
                sock.sendall(message[i:i + 7])
            self.assertEqual(read_response(sock.makefile("rb"))[0], 200)

    def test_continue_is_said_before_the_body(self):
        body = json.dumps(SHORT).encode()
        with self.server.connect() as sock:
            sock.sendall(f"POST /v1/completions HTTP/1.1\r\nExpect: 100-continue\r\n"
                         f"Content-Length: {len(body)}\r\n\r\n".encode())
            file = sock.makefile("rb")
            self.assertEqual(file.readline(), b"HTTP/1.1 100 Continue\r\n")
            self.assertEqual(file.readline(), b"\r\n")
            sock.sendall(body)
            self.assertEqual(read_response(file)[0], 200)

    def test_pipelined_requests_are_answered_in_order(self):
        ids = [f"r{i}" for i in range(10)]
        with self.server.connect() as sock:
            sock.sendall(b"".join(raw_request(SHORT, headers=f"X-Request-Id: {i}\r\n")
                                  for i in ids))
            file = sock.makefile("rb")
            for request_id in ids:
                status, _, body = read_response(file)
                self.assertEqual((status, json.loads(body)["id"]), (200, "cmpl-" + request_id))

    def test_metrics_show_no_method_that_a_client_made_up(self):
        for method in "BREW", "X1", "X2":
            self.assertEqual(self.server.request(method, "/v1/models")[0], 405)
        text = self.server.get("/metrics")[2].decode()
        self.assertNotIn("BREW", text)
        lines = [line for line in text.splitlines() if line.startswith(
            'http_requests_total{handler="/v1/models",method="other",status="4xx"}')]
        self.assertEqual([line.split()[-1] for line in lines], ["3"])

    def test_old_http_and_head(self):
        with self.server.connect() as sock:
            sock.sendall(b"GET /v1/models HTTP/1.0\r\n\r\n")
            answer = read_all(sock)
        self.assertIn(b"\r\nConnection: close\r\n", answer)
        json.loads(answer.split(b"\r\n\r\n", 1)[1])
        with self.server.connect() as sock:
            sock.sendall(b"HEAD /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n")
            self.assertTrue(read_all(sock).endswith(b"\r\n\r\n"))

    def test_a_client_that_leaves_frees_its_blocks(self):
        for stream in False, True:
            with self.subTest(stream=stream):
                before = self.server.metric("vllm:request_success_total", 'finished_reason="abort"')
                sock = self.server.connect()
                sock.sendall(raw_request({**LONG, "n": 8, "stream": stream}))
                while self.server.metric("vllm:num_requests_running") == 0:
                    time.sleep(0.01)
                sock.close()
                self.assertTrue(self.server.wait_idle())
                after = self.server.metric("vllm:request_success_total", 'finished_reason="abort"')
                self.assertEqual(after, before + 1)

    def test_a_slow_reader_is_cut_off_and_delays_nobody(self):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(self.server.address)
        sock.sendall(raw_request({**LONG, "n": 64, "stream": True, "logprobs": 20}))
        for _ in range(3):
            self.alive()
        self.assertTrue(self.server.wait_idle(200))
        self.assertTrue(any("too slowly" in line for line in self.server.log))
        sock.close()
        self.alive()

    def test_clients_that_send_nothing_hold_nobody_up(self):
        idle = [self.server.connect() for _ in range(100)]
        idle[0].sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Le")
        self.alive()
        for sock in idle:
            sock.close()


class OptionsTest(unittest.TestCase):
    def test_api_keys_guard_what_vllm_guards(self):
        with Server("--api-key", "one", "two", env={"VLLM_API_KEY": "three"}) as server:
            self.assertEqual(server.get("/v1/models")[0], 401)
            for key, status in ("one", 200), ("two", 200), ("three", 401), ("on", 401), ("", 401):
                headers = {"Authorization": f"Bearer {key}"}
                self.assertEqual(server.request("GET", "/v1/models", headers=headers)[0], status)
            self.assertEqual(server.request("GET", "/v1/models")[2], b'{"error":"Unauthorized"}')
            self.assertEqual(server.get("/health")[0], 200)
            self.assertEqual(server.get("/metrics")[0], 200)

    def test_the_models_own_sampling_holds_where_a_request_says_nothing(self):
        with Server("--override-generation-config",
                    '{"temperature": 0, "max_new_tokens": 5, "min_p": null}') as server:
            bodies = [{"prompt": "Once", "ignore_eos": True, **fields} for fields in (
                {}, {}, {"max_tokens": 3}, {"max_tokens": 30}, {"max_tokens": None})]
            answers = [server.post("/v1/completions", body)[1] for body in bodies]
            self.assertEqual([a["usage"]["completion_tokens"] for a in answers], [5, 5, 3, 5, 5])
            self.assertEqual(answers[0]["choices"], answers[1]["choices"])
            answer = server.post("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "Hi"}], "ignore_eos": True})[1]
            self.assertEqual(answer["usage"]["completion_tokens"], 5)
        for value, part in ({"temperature": "hot"}, "temperature"), ({"top_p": 2}, "top_p is 2"):
            with self.assertRaisesRegex(RuntimeError, part):
                Server("--override-generation-config", json.dumps(value))

    def test_cors_root_path_and_hidden_routes(self):
        with Server("--root-path", "/llm", "--allowed-origins", '["http://a.example"]') as server:
            self.assertEqual(server.get("/llm/v1/models")[0], 200)
            self.assertEqual(server.get("/health")[0], 200)
            self.assertEqual(server.post("/pause", {})[0], 404)
            for origin in "http://a.example", "http://b.example":
                headers = server.request("GET", "/health", headers={"Origin": origin})[1]
                allowed = headers.get("Access-Control-Allow-Origin")
                self.assertEqual(allowed, origin if "a." in origin else None)
            status, headers, _ = server.request("OPTIONS", "/v1/completions", headers={
                "Origin": "http://a.example", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization"})
            self.assertEqual(status, 200)
            self.assertEqual(headers["Access-Control-Allow-Headers"], "authorization")

    def test_a_full_queue_is_503_with_retry_after(self):
        with Server("--max-num-seqs", "1", "--max-num-queued-reqs", "2") as server:
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                answers = list(pool.map(
                    lambda _: server.request("POST", "/v1/completions",
                                             {**LONG, "max_tokens": 400}), range(12)))
            statuses = sorted(status for status, _, _ in answers)
            self.assertIn(200, statuses)
            self.assertIn(503, statuses)
            self.assertEqual(set(statuses), {200, 503})
            for status, headers, data in answers:
                if status == 503:
                    self.assertIn("Retry-After", headers)
                    self.assertEqual(json.loads(data)["error"]["code"], 503)

    def test_connections_beyond_the_descriptors_wait_for_their_turn(self):
        with Server() as server:
            self.assertEqual(server.post("/v1/completions", SHORT)[0], 200)
            process = server.process.pid
            used = len(os.listdir(f"/proc/{process}/fd"))
            hard = resource.prlimit(process, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(process, resource.RLIMIT_NOFILE, (used + 3, hard))
            socks = [server.connect() for _ in range(12)]
            for sock in socks:
                sock.sendall(raw_request(SHORT, headers="Connection: close\r\n"))
            for sock in socks:
                with sock:
                    self.assertTrue(read_all(sock).startswith(b"HTTP/1.1 200"))
            self.assertTrue(any("cannot accept" in line for line in server.log))

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/server.sock"
            with Server("--uds", path) as server, server.connect() as sock:
                sock.sendall(raw_request(SHORT))
                self.assertEqual(read_response(sock.makefile("rb"))[0], 200)

    def test_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = folder + "/key.pem", folder + "/cert.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout",
                            key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
                            "-addext", "subjectAltName=IP:127.0.0.1"],
                           check=True, capture_output=True)
            with Server("--ssl-keyfile", key, "--ssl-certfile", certificate) as server:
                context = ssl.create_default_context(cafile=certificate)
                with server.connect() as plain, \
                        context.wrap_socket(plain, server_hostname="127.0.0.1") as sock:
                    for _ in range(2):
                        sock.sendall(raw_request(SHORT))
                        self.assertEqual(read_response(sock.makefile("rb"))[0], 200)
                with server.connect() as plain:
                    plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    self.assertNotIn(b"HTTP/1.1 200", read_all(plain))


class SignalTest(unittest.TestCase):
    def test_a_server_that_loads_stops_at_once(self):
        """The socket is there before the model: some signal comes in between."""
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                codes = []
                while 128 + number not in codes and len(codes) < 30:
                    path = f"{folder}/{len(codes)}.sock"
                    with subprocess.Popen([OCTAVO, "serve", Server.model(), "--threads", "1",
                                           "--uds", path], stderr=subprocess.PIPE) as process:
                        while not os.path.exists(path) and process.poll() is None:
                            time.sleep(0.001)
                        process.send_signal(number)
                        log = process.communicate(timeout=60)[1]
                    codes.append(process.returncode)
                self.assertEqual(codes[-1], 128 + number, codes)
                self.assertIn(b"while the model was loading", log)


class DrainTest(unittest.TestCase):
    def start(self, timeout):
        server = Server("--shutdown-timeout", timeout)
        sock = server.connect()
        sock.sendall(raw_request({**LONG, "stream": True}))
        self.assertIn(b"200 OK", sock.recv(100))
        return server, sock

    def test_running_requests_may_end(self):
        server, sock = self.start("600")
        with server, sock:
            server.process.send_signal(signal.SIGTERM)
            rest = read_all(sock)
            self.assertIn(b'"finish_reason":"length"', rest)
            self.assertIn(b"data: [DONE]", rest)
            with self.assertRaises(OSError):
                server.connect(timeout=2)
            self.assertEqual(server.stop(), 0)

    def test_a_second_signal_stops(self):
        server, sock = self.start("600")
        with server, sock:
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(20), 0)
            self.assertIn(b"data: [DONE]", read_all(sock))

    def test_without_a_timeout_requests_are_aborted(self):
        server, sock = self.start("0")
        with server, sock:
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(20), 0)
            self.assertIn(b'"finish_reason":"abort"', read_all(sock))


if __name__ == "__main__":
    unittest.main()
