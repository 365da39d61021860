"""A real Prometheus scrapes a loaded server and answers every query of deploy/grafana/octavo.json
and of the rules; the other files of deploy/ can be read.

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

try:
    import yaml
except ImportError:  # Debian's python3-yaml
    yaml = None

PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"
GROUPS = json.dumps({"groups": [{"name": "a"}, {"name": "b", "defaults": {"temperature": 0.3}}]})
METRIC = r"\b(?:vllm|octavo):\w+"


def panel_queries():
    board = json.loads((DEPLOY / "grafana/octavo.json").read_text(encoding="utf-8"))
    return [(panel["title"], target["expr"]) for panel in board["panels"]
            for target in panel.get("targets", [])]


def rule_expressions():
    text = (DEPLOY / "prometheus/rules.yml").read_text(encoding="utf-8")
    folded = re.sub(r">-\n((?: {10}.*\n)+)", lambda m: " ".join(m[1].split()) + "\n", text)
    return re.findall(r"alert: (\w+)\n +expr: (.*)", folded)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def with_target(config, port):
    """deploy/prometheus/prometheus.yml for a server on another port, asked more often."""
    assert "octavo:8000" in config and "scrape_interval: 5s" in config
    return config.replace("octavo:8000", f"127.0.0.1:{port}").replace("5s", "1s")


class DashboardTest(unittest.TestCase):
    def test_every_metric_of_a_panel_exists(self):
        with Server("--ab-config", GROUPS) as server:
            shown = set(re.findall(rf"(?m)^({METRIC})", server.get("/metrics")[2].decode()))
        self.assertGreater(len(rule_expressions()), 4)
        for title, expression in panel_queries() + rule_expressions():
            asked = set(re.findall(METRIC, expression))
            self.assertTrue(asked or expression.startswith("up{"), title)
            self.assertLessEqual(asked, shown, title)


class DeployTest(unittest.TestCase):
    @unittest.skipUnless(yaml, "there is no yaml module")
    def test_yaml_can_be_read(self):
        paths = [*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")]
        self.assertGreater(len(paths), 5)
        for path in paths:
            with self.subTest(path=path):
                documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
                self.assertTrue(documents and all(documents))

    @unittest.skipUnless(yaml, "there is no yaml module")
    def test_compose_mounts_what_exists(self):
        services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
        mounts = [mount.split(":")[0] for service in services.values()
                  for mount in service.get("volumes", []) if mount.startswith(".")]
        self.assertGreater(len(mounts), 3)
        dockerfile = Path(services["octavo"]["build"]["dockerfile"])
        for path in [*(DEPLOY / mount for mount in mounts), DEPLOY.parent / dockerfile]:
            self.assertTrue(path.exists(), path)

    @unittest.skipUnless(yaml, "there is no yaml module")
    def test_compose_services_find_each_other(self):
        read = lambda name: yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
        services = read("compose.yaml")["services"]
        self.assertEqual([name for name, one in services.items() if "network_mode" in one], [])
        scraped = read("prometheus/prometheus.yml")["scrape_configs"][0]["static_configs"]
        self.assertEqual([one["targets"] for one in scraped], [["octavo:8000"]])
        sources = read("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
        self.assertEqual([source["url"] for source in sources], ["http://prometheus:9090"])
        for name, port in ("octavo", 8000), ("prometheus", 9090), ("grafana", 3000):
            self.assertEqual(services[name]["ports"], [f"{port}:{port}"])

    @unittest.skipUnless(yaml, "there is no yaml module")
    def test_compose_gives_the_server_its_groups_and_time(self):
        octavo = yaml.safe_load(
            (DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]["octavo"]
        flags = dict(zip(octavo["command"][1::2], octavo["command"][2::2]))
        here, there = octavo["volumes"][0].split(":")[:2]
        self.assertTrue((DEPLOY / here).is_dir())
        self.assertTrue((DEPLOY / here / Path(flags["--ab-config"]).relative_to(there)).is_file())
        grace_s = int(octavo["stop_grace_period"].removesuffix("s"))
        self.assertTrue(0 < int(flags["--shutdown-timeout"]) < grace_s)

    @unittest.skipUnless(yaml, "there is no yaml module")
    def test_the_server_takes_the_groups_of_both_files(self):
        documents = yaml.safe_load_all(
            (DEPLOY / "kubernetes/octavo.yaml").read_text(encoding="utf-8"))
        in_cluster = next(one["data"]["ab.yaml"] for one in documents if one["kind"] == "ConfigMap")
        with tempfile.TemporaryDirectory(prefix="octavo-deploy-") as folder:
            (Path(folder) / "ab.yaml").write_text(in_cluster, encoding="utf-8")
            for path in DEPLOY / "octavo/ab.yaml", Path(folder) / "ab.yaml":
                with Server("--ab-config", str(path)) as server:
                    groups = json.loads(server.get("/ab")[2])["groups"]
                self.assertEqual([group["weight"] for group in groups], [9, 1])


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
        with (Server("--ab-config", GROUPS) as server,
              tempfile.TemporaryDirectory(prefix="octavo-prometheus-") as folder):
            shutil.copy(DEPLOY / "prometheus/rules.yml", folder)
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
                url = f"http://127.0.0.1:{self.port}/api/v1/rules"
                with urllib.request.urlopen(url, timeout=10) as response:
                    rules = json.load(response)["data"]["groups"][0]["rules"]
                self.assertEqual([rule["name"] for rule in rules],
                                 [name for name, _ in rule_expressions()])
                self.assertEqual([sample["value"][1] for sample in self.query("up")], ["1"])
            finally:
                stop.set()
                loader.join()
                prometheus.terminate()
                prometheus.wait(30)


if __name__ == "__main__":
    unittest.main()
