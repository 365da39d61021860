#!/usr/bin/env python3
"""`octavo pull` where the hub or the way to it is faulty.

hub_faults_test.py OCTAVO MODEL_FOLDER [TEST]..."""

import json
import signal
import subprocess
import time

from hub_case import NAME, OCTAVO, HubCase, main
from hub_server import COMMIT


class HubFaultsTest(HubCase):
    # --- trouble on the way ---------------------------------------------------------------------

    def test_breaks_off_and_goes_on(self):
        repo = self.gguf_repo()
        self.hub.break_after, self.hub.num_breaks = 100000, 2
        self.assertEqual(self.pull().read_bytes(), repo.files["model-Q4_K_M.gguf"])
        ranges = [h.get("Range") for m, p, h in self.hub.requests if m == "GET" and "/cdn/" in p]
        self.assertEqual(ranges[0], None)
        self.assertEqual(ranges[1], "bytes=100000-")
        self.assertEqual(ranges[2], "bytes=200000-")

    def test_a_killed_download_is_resumed(self):
        repo = self.gguf_repo(2000000)
        self.hub.break_after, self.hub.delay_s = 1000000, 60
        child = subprocess.Popen([OCTAVO, "pull", NAME], env=self.environment(),
                                 stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        incomplete = self.repo_path() / "blobs" / (repo.etag("model-Q4_K_M.gguf") + ".incomplete")
        deadline = time.time() + 60
        while time.time() < deadline and not (incomplete.exists() and
                                              incomplete.stat().st_size >= 900000):
            time.sleep(0.02)
        busy = self.octavo("remove", NAME, "--yes")
        self.assertEqual(busy.returncode, 1)
        self.assertIn("being downloaded", busy.stderr)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(), -signal.SIGINT)
        self.hub.delay_s, self.hub.num_breaks = 0, 0
        self.assertEqual(self.pull().read_bytes(), repo.files["model-Q4_K_M.gguf"])
        self.assertRegex(self.hub.requests[-1][2]["Range"], r"bytes=\d{6,7}-")
        self.assertFalse(incomplete.exists())

    def test_wrong_leftovers_are_replaced(self):
        repo = self.gguf_repo()
        etag = repo.etag("model-Q4_K_M.gguf")
        for leftover in (b"\0" * 1000, b"\0" * 300000, b"\0" * 400000):
            blobs = self.repo_path() / "blobs"
            blobs.mkdir(parents=True, exist_ok=True)
            (blobs / (etag + ".incomplete")).write_bytes(leftover)
            self.assertEqual(self.pull().read_bytes(), repo.files["model-Q4_K_M.gguf"])
            self.octavo("remove", NAME, "--yes")

    def test_a_server_without_ranges(self):
        repo = self.gguf_repo()
        self.hub.ranges, self.hub.break_after = False, 100000
        self.assertEqual(self.pull().read_bytes(), repo.files["model-Q4_K_M.gguf"])

    def test_a_server_that_always_breaks_off_ends(self):
        self.gguf_repo()
        self.hub.ranges, self.hub.break_after, self.hub.num_breaks = False, 1000, 1000
        self.refuse("model-Q4_K_M.gguf", "broke off")
        self.assertEqual(self.hub.count("GET", "/cdn/"), 5)

    def test_wrong_content(self):
        repo = self.gguf_repo()
        wrong = b"x" + repo.files["model-Q4_K_M.gguf"][1:]
        self.hub.content_of["model-Q4_K_M.gguf"] = wrong
        self.refuse("digest", repo.etag("model-Q4_K_M.gguf"))
        self.assertEqual(self.blobs(), [])
        self.assertFalse((self.repo_path() / "refs/main").exists())

    def test_wrong_content_of_a_small_file(self):
        repo = self.folder_repo()
        self.hub.content_of["config.json"] = repo.files["config.json"].replace(b" ", b"\n")
        self.refuse("config.json", "digest")

    def test_wrong_lengths(self):
        repo = self.gguf_repo()
        name = "model-Q4_K_M.gguf"
        for content in (repo.files[name] + b"x", repo.files[name][:-1]):
            self.hub.content_of[name] = content
            self.refuse(name, str(len(content)), "300000")
        del self.hub.content_of[name]
        self.hub.claim_length = 200000
        self.refuse(name, "200000")
        self.assertEqual([n for n in self.blobs() if not n.endswith(".incomplete")], [])

    def test_busy_servers_are_asked_again(self):
        repo = self.gguf_repo(1000)
        self.hub.failures = [(429, {"Retry-After": "1"}), (503, {}), (500, {})]
        begin = time.monotonic()
        self.pull()
        self.assertGreater(time.monotonic() - begin, 1 + 1 + 2 - 0.1)
        repo.commit = COMMIT[::-1]
        self.hub.failures = [(429, {"Retry-After": "1000"})]
        self.refuse("429", "1000 seconds")
        self.hub.failures = [(502, {})] * 5
        self.refuse("502")
        self.assertEqual(self.hub.failures, [])

    def test_a_silent_server(self):
        self.gguf_repo()
        self.hub.break_after, self.hub.num_breaks, self.hub.delay_s = 100000, 1, 30
        begin = time.monotonic()
        self.pull(HF_HUB_DOWNLOAD_TIMEOUT="2")
        self.assertLess(time.monotonic() - begin, 25)

    def test_no_server(self):
        self.gguf_repo()
        self.refuse(NAME, "cannot be reached", HF_ENDPOINT="http://127.0.0.1:1")

    # --- answers that are not what they should be -----------------------------------------------

    def test_paths_that_lead_out(self):
        for name in ("../evil.json", "/etc/evil.json", "a/../../evil.json", "a//b.json",
                     "a\\b.json", "a\nb.json", "..", ""):
            self.hub.api_answer = json.dumps(
                {"sha": COMMIT, "siblings": [{"rfilename": name}]}).encode()
            self.refuse("rfilename")
        self.assertEqual(list(self.cache.glob("**/*evil*")), [])

    def test_malformed_listings(self):
        good = {"sha": COMMIT, "siblings": []}
        for answer in (b"", b"{", b"[]", b"null", b'{"sha": 1}', b"[" * 100000,
                       json.dumps(good | {"sha": "../../x"}).encode(),
                       json.dumps(good | {"siblings": {}}).encode(),
                       json.dumps(good | {"siblings": [1]}).encode(),
                       json.dumps(good | {"siblings": [{"rfilename": 1}]}).encode()):
            self.hub.api_answer = answer
            self.refuse("/api/models/acme/tiny/revision/main")

    def test_a_huge_listing(self):
        self.hub.api_answer = b'{"sha": "' + b"0" * (33 << 20)
        self.refuse("longer than")

    def test_unusable_etags(self):
        repo = self.gguf_repo(1000)
        for etag in ("", "../../x", ".x", "a b", "x" * 200):
            repo.etag = lambda name, value=etag: value
            self.refuse("ETag")


if __name__ == "__main__":
    main()
