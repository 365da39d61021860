"""A real Prometheus scrapes a loaded server and answers every query of deploy/grafana/octavo.json.

Debian's package `prometheus` has it; PROMETHEUS names another one. Without any, all that is tested
is that each metric that a query names is one of the server's.
"""

import concurrent.futures
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from harness import Server

PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"


def panel_queries():
    board = json.loads((DEPLOY / "grafana/octavo.json").read_text(encoding="utf-8"))
    return [(panel["title"], target["expr"]) for panel in board["panels"]
            for target in panel.get("targets", [])]


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def with_target(config, port):
    """deploy/prometheus/prometheus.yml for a server on another port, asked more often."""
    assert "localhost:8000" in config and "scrape_interval: 5s" in config
    return config.replace("localhost:8000", f"127.0.0.1:{port}").replace("5s", "1s")


class DashboardTest(unittest.TestCase):
    def test_every_metric_of_a_panel_exists(self):
        with Server() as server:
            shown = set(re.findall(r"(?m)^(vllm:\w+)", server.get("/metrics")[2].decode()))
        for title, expression in panel_queries():
            asked = set(re.findall(r"vllm:\w+", expression))
            self.assertTrue(asked, title)
            self.assertLessEqual(asked, shown, title)


@unittest.skipUnless(PROMETHEUS, "there is no prometheus")
class PrometheusTest(unittest.TestCase):
    def query(self, expression):
        url = (f"http://127.0.0.1:{self.port}/api/v1/query?"
               + urllib.parse.urlencode({"query": expression}))
        with urllib.request.urlopen(url, timeout=10) as response:
            return json.load(response)["data"]["result"]

    def load(self, server, stop):
        """Requests that stream, share prefixes, and end for different reasons."""
        def client(number):
            while not stop.is_set():
                server.request("POST", "/v1/completions", {
                    "prompt": "Once upon a time " * 8 + str(number), "max_tokens": 8,
                    "ignore_eos": number % 2 == 0, "stream": number % 3 == 0})
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            list(pool.map(client, range(6)))

    def wait_for(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.query(expression):
                    return
            except (urllib.error.URLError, ConnectionError):
                pass
            time.sleep(0.3)
        self.fail(f"no data for {expression}")

    def test_every_panel_has_data(self):
        queries = panel_queries()
        self.assertGreater(len(queries), 10)
        self.port = free_port()
        with Server() as server, tempfile.TemporaryDirectory(prefix="octavo-prometheus-") as folder:
            config = (DEPLOY / "prometheus/prometheus.yml").read_text(encoding="utf-8")
            (Path(folder) / "config.yml").write_text(with_target(config, server.address[1]),
                                                     encoding="utf-8")
            stop = threading.Event()
            loader = threading.Thread(target=self.load, args=(server, stop))
            loader.start()
            prometheus = subprocess.Popen(
                [PROMETHEUS, f"--config.file={folder}/config.yml",
                 f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error"],
                stdout=subprocess.DEVNULL)
            try:
                # Rates need two scrapes with a difference between them.
                self.wait_for("rate(vllm:generation_tokens_total[10s]) > 0")
                for title, expression in queries:
                    with self.subTest(panel=title, query=expression):
                        expression = (expression.replace("$__rate_interval", "30s")
                                      .replace("$model", "tiny"))
                        result = self.query(expression)
                        self.assertTrue(result)
                        self.assertTrue(any(sample["value"][1] != "NaN" for sample in result),
                                        result)
                self.assertEqual([sample["value"][1] for sample in self.query("up")], ["1"])
            finally:
                stop.set()
                loader.join()
                prometheus.terminate()
                prometheus.wait(30)


if __name__ == "__main__":
    unittest.main()
