"""Starts `octavo serve` on a tiny model, and speaks to it with the standard library alone."""

import http.client
import json
import os
import re
import socket
import subprocess
import tempfile
import threading
import time

from tiny_model import write_tiny_model

OCTAVO = os.environ["OCTAVO_BINARY"]
DATA = os.environ["OCTAVO_TEST_DATA"]
START_S = 120  # a machine that also builds is slow


class Server:
    _model = None

    def __init__(self, *flags, env=None, model=None, names=("tiny", "tiny-too")):
        """On `model`, or a tiny one with random weights."""
        self.log = []
        environment = {k: v for k, v in os.environ.items() if k != "VLLM_API_KEY"}
        environment.update(env or {})
        self.process = subprocess.Popen(
            [OCTAVO, "serve", model or Server.model(), "--host", "127.0.0.1", "--port", "0",
             "--served-model-name", *names, *([] if model else ["--threads", "1"]), *flags],
            stderr=subprocess.PIPE, text=True, env=environment)
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        if not self._ready.wait(START_S) or self.address is None:
            self.process.kill()
            self.__exit__()
            raise RuntimeError("the server did not start:\n" + "".join(self.log))

    address = None

    @staticmethod
    def model():
        """The path of a tiny model with random weights, made at the first call."""
        if Server._model is None:
            Server._folder = tempfile.TemporaryDirectory(prefix="octavo-server-test-")
            Server._model = os.path.join(Server._folder.name, "tiny.gguf")
            write_tiny_model(Server._model, os.path.join(DATA, "smollm2", "vocab.gguf"))
        return Server._model

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"listening on \w+://127.0.0.1:(\d+)|listening on unix:(\S+)", line)
            if found:
                self.address = ("127.0.0.1", int(found[1])) if found[1] else found[2]
                self._ready.set()
        self._ready.set()

    def connect(self, timeout=60):
        if isinstance(self.address, tuple):
            return socket.create_connection(self.address, timeout=timeout)
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(timeout)
        sock.connect(self.address)
        return sock

    def request(self, method, path, body=None, headers=None):
        """Status, headers, bytes."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            data = json.dumps(body) if isinstance(body, (dict, list)) else body
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body, headers=None):
        """Status and JSON."""
        status, _, data = self.request("POST", path, body, headers)
        return status, json.loads(data) if data else None

    def stream(self, path, body):
        """The objects of a stream of server-sent events, which must end with [DONE]."""
        status, headers, data = self.request("POST", path, {**body, "stream": True})
        assert status == 200, data
        assert headers["Content-Type"].startswith("text/event-stream"), headers
        events = data.decode().split("\n\n")
        assert events.pop() == "" and events.pop() == "data: [DONE]", data
        assert all(event.startswith("data: ") for event in events), data
        return [json.loads(event[len("data: "):]) for event in events]

    def metric(self, name, labels=""):
        text = self.get("/metrics")[2].decode()
        pattern = re.escape(name) + r"\{[^}]*" + re.escape(labels) + r"[^}]*\} (\S+)"
        return sum(float(value) for value in re.findall(r"(?m)^" + pattern, text))

    def wait_idle(self, timeout=30):
        """Until no request runs or waits and no block is in use."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if (self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting")
                    + self.metric("vllm:kv_cache_usage_perc")) == 0:
                return True
            time.sleep(0.05)
        return False

    def stop(self, timeout=30):
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        self.process.stderr.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(5)
        self.process.stderr.close()
