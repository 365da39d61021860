"""Groups of --ab-config: who is in which, how they differ, what /ab and /metrics say of them."""

import json
import math
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from harness import OCTAVO, Server

TEMPLATE = "{% for m in messages %}<b>{{ m['content'] }}</b>{% endfor %}{{ suffix }}"
CONFIG = """
salt: "test"
window_s: 3600
groups:
  - name: control
    weight: 3
  - name: hot.2
    weight: 1
    defaults:
      temperature: 0
      cache_salt: hot
      chat_template: "%s"
      chat_template_kwargs: {suffix: "!"}
""" % TEMPLATE
ONE_GROUP = json.dumps({"groups": [{"name": "a"}]})
MASK = 2**64 - 1


def mix(key, name, salt="test"):
    """The hash of docs/ab-testing.md."""
    value = 0xcbf29ce484222325
    for byte in f"{salt}\n{name}\n{key}".encode():
        value = ((value ^ byte) * 0x100000001b3) & MASK
    value = ((value ^ (value >> 33)) * 0xff51afd7ed558ccd) & MASK
    value = ((value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53) & MASK
    return value ^ (value >> 33)


def expected_group(key, weights):
    return min((-math.log(((mix(key, name) >> 11) + 0.5) / 2**53) / weight, name)
               for name, weight in weights.items() if weight > 0)[1]


WEIGHTS = {"control": 3, "hot.2": 1}


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


class GroupsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="octavo-groups-")
        cls.path = os.path.join(cls.folder.name, "ab.yaml")
        cls.write(CONFIG)
        cls.server = Server("--ab-config", cls.path)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.log
        cls.folder.cleanup()

    @classmethod
    def write(cls, text):
        with open(cls.path, "w", encoding="utf-8") as file:
            file.write(text)

    def ask(self, headers=None, path="/v1/completions", **fields):
        """Status, group, body."""
        body = {"prompt": "Once upon", "max_tokens": 2, **fields}
        status, answer, data = self.server.request("POST", path, body, headers)
        return status, answer.get("X-Octavo-Group"), data

    def test_the_key_decides(self):
        seen = set()
        for i in range(24):
            group = expected_group(f"user-{i}", WEIGHTS)
            seen.add(group)
            session = {"X-Session-ID": f"user-{i}"}
            for headers, fields in [({}, {"user": f"user-{i}"}), (session, {}),
                                    ({"X-Session-ID": "other"}, {"user": f"user-{i}"}),
                                    ({"X-Request-Id": f"user-{i}"}, {}),
                                    ({}, {"request_id": f"user-{i}"}),
                                    (session, {"user": 7}), (session, {"stream": True})]:
                status, found, data = self.ask(headers, **fields)
                self.assertEqual((status, found), (200, group), data)
        self.assertEqual(seen, set(WEIGHTS))

    def test_requests_without_a_key_are_spread(self):
        with ThreadPoolExecutor(8) as pool:
            groups = list(pool.map(lambda _: self.ask(max_tokens=1)[1], range(80)))
        self.assertEqual(set(groups), set(WEIGHTS))

    def test_the_header_wins(self):
        for group in WEIGHTS:
            for i in range(8):
                self.assertEqual(self.ask({"X-Octavo-Group": group}, user=str(i))[:2], (200, group))

    def test_hostile_headers(self):
        for value in ("", "nobody", "CONTROL", "control, hot.2", "<script>", "x" * 5000,
                      "\xff\xfe", "hot.2\t."):
            status, group, data = self.ask({"X-Octavo-Group": value.encode("latin-1")})
            self.assertEqual((status, group), (400, None), value)
            message = json.loads(data)["error"]["message"]
            self.assertEqual(message, "X-Octavo-Group must be one of the groups control, hot.2")
        for value in "\xff" * 100, "x" * 10000, "\"}\n".strip():
            self.assertEqual(self.ask({"X-Session-ID": value.encode("latin-1")})[0], 200)
        with self.server.connect() as sock:
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                         b"X-Octavo-Group: a\r\n b: c\r\nContent-Length: 2\r\n\r\n{}")
            self.assertIn(b" 400 ", sock.recv(1000))
        self.assertNotIn("nobody", self.server.get("/metrics")[2].decode())

    def test_errors_carry_the_group(self):
        status, group, _ = self.ask({"X-Octavo-Group": "hot.2"}, top_p=7)
        self.assertEqual((status, group), (400, "hot.2"))

    def test_groups_differ_and_requests_win(self):
        hot = {"X-Octavo-Group": "hot.2"}
        greedy = self.ask({"X-Octavo-Group": "control"}, max_tokens=12, temperature=0)[2]
        text = lambda data: json.loads(data)["choices"][0]["text"]
        self.assertEqual(text(self.ask(hot, max_tokens=12)[2]), text(greedy))
        answers = {text(self.ask({"X-Octavo-Group": "control"}, max_tokens=12, seed=i)[2])
                   for i in range(4)}
        self.assertGreater(len(answers), 1)
        answers = {text(self.ask(hot, max_tokens=12, seed=i, temperature=1)[2]) for i in range(4)}
        self.assertGreater(len(answers), 1)

    def test_groups_have_templates(self):
        def prompt(headers, **fields):
            status, data = self.server.post("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1,
                "return_token_ids": True, **fields}, headers)
            self.assertEqual(status, 200, data)
            ids = {"tokens": data["prompt_token_ids"]}
            return self.server.post("/detokenize", ids)[1]["prompt"]
        hot = {"X-Octavo-Group": "hot.2"}
        self.assertEqual(prompt(hot), "<b>Hello</b>!")
        self.assertEqual(prompt(hot, chat_template_kwargs={"suffix": "?"}), "<b>Hello</b>?")
        self.assertNotIn("<b>", prompt({"X-Octavo-Group": "control"}))
        status, _ = self.server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hello"}], "chat_template": "{{ 1 }}"}, hot)
        self.assertEqual(status, 400)

    def test_metrics_of_groups_add_up(self):
        for i in range(6):
            self.ask(user=str(i), max_tokens=4, stream=i % 2 == 0)
        self.assertTrue(self.server.wait_idle())
        text = self.server.get("/metrics")[2].decode()
        def total(name):
            values = re.findall(rf"(?m)^{re.escape(name)}\{{.*\}} (\S+)$", text)
            return sum(map(float, values))
        for name in ("prompt_tokens_total", "generation_tokens_total", "request_success_total",
                     "time_to_first_token_seconds_count", "inter_token_latency_seconds_count",
                     "e2e_request_latency_seconds_count", "e2e_request_latency_seconds_bucket"):
            self.assertGreater(total("vllm:" + name), 0, name)
            self.assertEqual(total("octavo:" + name), total("vllm:" + name), name)
        self.assertAlmostEqual(total("octavo:e2e_request_latency_seconds_sum"),
                               total("vllm:e2e_request_latency_seconds_sum"), places=6)

    def test_the_report(self):
        groups = list(WEIGHTS) * 32
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda g: self.ask({"X-Octavo-Group": g}, max_tokens=3), groups))
        status, headers, data = self.server.get("/ab")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
        report = json.loads(data)
        control, hot = report["groups"]
        self.assertEqual((control["name"], hot["name"]), ("control", "hot.2"))
        for group in control, hot:
            self.assertGreaterEqual(group["requests"], 32)
            self.assertGreater(group["generation_tokens_per_s"], 0)
            for key in "ttft_s", "itl_s", "tpot_s", "latency_s":
                latency = group[key]
                self.assertGreater(latency["count"], 0, key)
                self.assertTrue(0 < latency["p50"] <= latency["p90"] <= latency["p99"], latency)
        self.assertNotIn("difference", control)
        for key in "ttft_s", "tpot_s", "latency_s":
            interval = hot["difference"][key]
            self.assertLessEqual(interval["low"], interval["mean"])
            self.assertLessEqual(interval["mean"], interval["high"])
            self.assertAlmostEqual(interval["mean"], hot[key]["mean"] - control[key]["mean"])

    def wait_for_log(self, part, count):
        found = lambda: sum(part in line for line in self.server.log) > count
        self.assertTrue(wait_until(found), "".join(self.server.log[-5:]))

    def reload(self, text, part):
        count = sum(part in line for line in self.server.log)
        self.write(text)
        self.server.process.send_signal(signal.SIGHUP)
        self.wait_for_log(part, count)

    def groups_of_users(self):
        return {self.ask(user=str(i), max_tokens=1)[1] for i in range(12)}

    def test_weights_change_by_sighup(self):
        try:
            self.reload(CONFIG.replace("weight: 1", "weight: 0"), "weights are now")
            self.assertEqual(self.groups_of_users(), {"control"})
            self.assertEqual(self.ask({"X-Octavo-Group": "hot.2"})[:2], (200, "hot.2"))
            self.assertEqual(self.server.metric("octavo:group_weight", 'group="hot.2"'), 0)
            for text in (CONFIG.replace("hot.2", "other"), "groups: 3", "]["):
                self.reload(text, "was not taken")
            self.assertEqual(self.groups_of_users(), {"control"})
        finally:
            self.reload(CONFIG, "weights are now")
        for i in range(12):
            self.assertEqual(self.ask(user=f"user-{i}", max_tokens=1)[1],
                             expected_group(f"user-{i}", WEIGHTS))


class ConfigTest(unittest.TestCase):
    def test_errors_name_file_and_key(self):
        with tempfile.TemporaryDirectory(prefix="octavo-groups-") as folder:
            path = os.path.join(folder, "ab.yaml")
            for text, part in [("", "must be a map"), ("groups: [", "ab.yaml"),
                               ("groups: [{name: a, wieght: 1}]", "'wieght'"),
                               ("groups: [{name: a, defaults: {top_p: 2}}]", "top_p"),
                               ("groups: [{name: a, defaults: {chat_template: no.jinja}}]",
                                "no.jinja"),
                               ("groups: [{name: a, defaults: {chat_template: '{% if'}}]",
                                "chat_template of a")]:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                run = subprocess.run([OCTAVO, "serve", Server.model(), "--ab-config", path],
                                     capture_output=True, text=True, timeout=60)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(path, run.stderr)
                self.assertIn(part, run.stderr)
            run = subprocess.run([OCTAVO, "serve", Server.model(), "--ab-config", "/no/ab.yaml"],
                                 capture_output=True, text=True, timeout=60)
            self.assertIn("/no/ab.yaml: cannot be read", run.stderr)

    def test_groups_stand_in_the_config_file_too(self):
        with tempfile.TemporaryDirectory(prefix="octavo-groups-") as folder:
            path = os.path.join(folder, "serve.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("ab-config:" + CONFIG.replace("\n", "\n  "))
            with Server("--config", path) as server:
                names = [g["name"] for g in json.loads(server.get("/ab")[2])["groups"]]
                self.check_that_sighup_changes_nothing(server)
        self.assertEqual(names, ["control", "hot.2"])

    def check_that_sighup_changes_nothing(self, server):
        server.process.send_signal(signal.SIGHUP)
        self.assertTrue(wait_until(lambda: any("SIGHUP changes nothing" in line
                                               for line in server.log)), server.log)
        self.assertEqual(server.post("/v1/completions", {"prompt": "x", "max_tokens": 1})[0], 200)
        self.assertEqual(server.stop(), 0)

    def test_sighup_without_a_file(self):
        with Server("--ab-config", ONE_GROUP) as server:
            self.check_that_sighup_changes_nothing(server)

    def test_sighup_while_the_model_is_looked_for(self):
        for flags, survives in (["--ab-config", ONE_GROUP], True), ([], False):
            with (socket.create_server(("127.0.0.1", 0)) as hub,
                  tempfile.TemporaryDirectory(prefix="octavo-groups-") as folder):
                hub.settimeout(60)
                environment = os.environ | {
                    "HF_ENDPOINT": "http://127.0.0.1:%d" % hub.getsockname()[1],
                    "HF_HOME": folder, "HOME": folder}
                process = subprocess.Popen([OCTAVO, "serve", "some/model", *flags],
                                           stderr=subprocess.DEVNULL, env=environment)
                try:
                    with hub.accept()[0] as asked:
                        asked.recv(1)
                        process.send_signal(signal.SIGHUP)
                        ends = lambda: process.poll() is not None
                        self.assertEqual(wait_until(ends, 1 if survives else 20), not survives)
                        if not survives:
                            self.assertEqual(process.returncode, -signal.SIGHUP)
                finally:
                    process.kill()
                    process.wait()

    def test_what_ends_in_the_queue(self):
        with Server("--ab-config", ONE_GROUP, "--enable-dev-endpoints") as server:
            body = {"prompt": "Once upon a time", "max_tokens": 2, "ignore_eos": True}
            self.assertEqual(server.post("/v1/completions", body)[0], 200)
            before = server.metric("octavo:prompt_tokens_total")
            self.assertGreater(before, 0)
            server.post("/pause", {})
            with server.connect() as sock:
                data = json.dumps(body).encode()
                sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                             b"Content-Length: %d\r\n\r\n" % len(data) + data)
                self.assertTrue(wait_until(
                    lambda: server.metric("vllm:num_requests_waiting") == 1))
            self.assertTrue(wait_until(
                lambda: server.metric("octavo:request_success_total", '"abort"') == 1))
            server.post("/resume", {})
            self.assertEqual(server.post("/v1/completions", body)[0], 200)
            self.assertTrue(server.wait_idle())
            for name in "octavo:prompt_tokens_total", "vllm:prompt_tokens_total":
                self.assertEqual(server.metric(name), 2 * before, name)
            group = json.loads(server.get("/ab")[2])["groups"][0]
            self.assertEqual((group["requests"], group["aborted"]), (3, 1))
            for key in "ttft_s", "tpot_s", "latency_s":
                self.assertEqual(group[key]["count"], 2, key)

    def test_without_groups_there_is_one_without_a_name(self):
        with Server() as server:
            status, headers, _ = server.request("POST", "/v1/completions", {"prompt": "x"},
                                                {"X-Octavo-Group": "any"})
            self.assertEqual(status, 200)
            self.assertNotIn("X-Octavo-Group", headers)
            self.assertNotIn("octavo:", server.get("/metrics")[2].decode())
            report = json.loads(server.get("/ab")[2])
            self.assertEqual([(g["name"], g["requests"]) for g in report["groups"]], [("all", 1)])
            status, headers, page = server.get("/dashboard")
            self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            script = server.get("/dashboard.js")[2]
            self.assertNotRegex((page + script).decode(), "https?://")


if __name__ == "__main__":
    unittest.main()
