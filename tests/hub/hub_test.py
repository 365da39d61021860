#!/usr/bin/env python3
"""`octavo pull` and its relatives against a hub on this machine.

hub_test.py OCTAVO MODEL_FOLDER [TEST]..."""

import json
import os
import pty
import subprocess
from pathlib import Path

from hub_case import GOLDENS, NAME, OCTAVO, HubCase, main
from hub_server import COMMIT, HubServer, Repo, git_blob_id


class HubTest(HubCase):
    # --- what is downloaded ---------------------------------------------------------------------

    def test_folder(self):
        repo = self.folder_repo()
        path = self.pull()
        self.assertEqual(path, self.repo_path() / "snapshots" / COMMIT)
        self.assertEqual(sorted(p.name for p in path.iterdir()),
                         ["config.json", "model.safetensors"])
        for name in ("config.json", "model.safetensors"):
            link = path / name
            self.assertEqual(os.readlink(link), f"../../blobs/{repo.etag(name)}")
            self.assertEqual(link.read_bytes(), repo.files[name])
        self.assertEqual((self.repo_path() / "refs/main").read_text(), COMMIT)
        self.assertEqual(self.blobs(),
                         sorted(repo.etag(n) for n in ("config.json", "model.safetensors")))

    def test_any_command_takes_a_name_and_a_cached_model_needs_no_hub(self):
        self.folder_repo()
        run = ("run", NAME, "--token-ids", "1,2,3", "--max-tokens", "4", "--json")
        first = self.octavo(*run)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("downloading", first.stderr)
        before = len(self.hub.requests)
        second = self.octavo(*run)
        offline = self.octavo(*run, HF_HUB_OFFLINE="1")
        ids = [json.loads(o.stdout)["token_ids"] for o in (first, second, offline)]
        self.assertEqual(ids[0], ids[1])
        self.assertEqual(ids[0], ids[2])
        self.assertEqual(len(self.hub.requests), before)
        local = self.octavo("run", str(GOLDENS), *run[2:])
        self.assertEqual(json.loads(local.stdout)["token_ids"], ids[0])

    def test_sharded_folder_takes_what_the_index_names(self):
        index = {"weight_map": {"a": "model-1.safetensors", "b": "sub/model-2.safetensors"}}
        repo = Repo({"config.json": b"{}", "model.safetensors.index.json":
                     json.dumps(index).encode(), "model-1.safetensors": b"1" * 1000,
                     "sub/model-2.safetensors": b"2" * 1000, "other.safetensors": b"3"})
        self.hub.repos[NAME] = repo
        path = self.pull()
        self.assertEqual((path / "sub/model-2.safetensors").read_bytes(), b"2" * 1000)
        self.assertEqual(os.readlink(path / "sub/model-2.safetensors"),
                         "../../../blobs/" + git_blob_id(b"2" * 1000))
        self.assertFalse((path / "other.safetensors").exists())
        del repo.files["model-1.safetensors"]
        repo.commit = COMMIT[::-1]
        self.refuse("model-1.safetensors", "missing")

    def test_quantisations(self):
        split = [f"Q8/big-Q8_0-{i:05}-of-00002.gguf" for i in (1, 2)]
        names = ["a-Q2_K.gguf", "a-Q4_K_M.gguf", "a-Q4_K_S.gguf", "mmproj-f16.gguf", *split]
        self.gguf_repo(1000, names)
        self.assertEqual(self.pull().name, "a-Q4_K_M.gguf")
        self.assertEqual(self.pull(NAME + ":q2_k").name, "a-Q2_K.gguf")
        self.assertEqual(self.pull(NAME + ":a-Q4_K_S.gguf").name, "a-Q4_K_S.gguf")
        path = self.pull(NAME + ":Q8_0")
        self.assertEqual(str(path.relative_to(path.parents[1])), split[0])
        self.assertTrue((path.parent / "big-Q8_0-00002-of-00002.gguf").exists())
        self.refuse("'Q4_K'", "a-Q4_K_M.gguf", name=NAME + ":Q4_K")
        self.assertEqual(self.hub.count("GET", "mmproj"), 0)

    def test_no_model_in_it(self):
        self.hub.repos[NAME] = Repo({"pytorch_model.bin": b"x", "config.json": b"{}"})
        self.refuse("safetensors", "GGUF")
        self.assertEqual(self.hub.count("GET", ".bin"), 0)

    def test_revisions(self):
        repo = self.gguf_repo(1000)
        repo.revisions.add("refs/pr/1")
        path = self.pull(NAME, "--revision", "refs/pr/1")
        self.assertEqual((self.repo_path() / "refs/refs/pr/1").read_text(), COMMIT)
        self.assertFalse((self.repo_path() / "refs/main").exists())
        self.assertEqual(self.pull(NAME, "--revision", COMMIT), path)
        self.refuse("revision 'v9'", arguments=("--revision", "v9"))
        self.refuse("../x", arguments=("--revision", "../x"))

    def test_a_new_commit_keeps_what_did_not_change(self):
        repo = self.folder_repo()
        self.pull()
        repo.commit = COMMIT[::-1]
        repo.files["config.json"] += b"\n"
        before = self.hub.count("GET", "/cdn/")
        path = self.pull()
        self.assertEqual(path.name, repo.commit)
        self.assertEqual((path / "config.json").read_bytes(), repo.files["config.json"])
        self.assertEqual(self.hub.count("GET", "/cdn/"), before)
        self.assertEqual((self.repo_path() / "refs/main").read_text(), repo.commit)

    def test_empty_file(self):
        repo = self.folder_repo()
        repo.files["empty.json"] = b""
        self.assertEqual((self.pull() / "empty.json").read_bytes(), b"")

    # --- who may --------------------------------------------------------------------------------

    def test_tokens(self):
        repo = self.gguf_repo(1000)
        repo.token = "hf_secret"
        self.refuse("gated", "HF_TOKEN", f"{self.hub.url}/{NAME}")
        self.refuse("gated", "HF_TOKEN", HF_TOKEN="hf_wrong")
        self.assertNotIn("hf_wrong", self.refuse("HF_TOKEN", HF_TOKEN="hf_wrong"))
        self.pull(HF_TOKEN=" hf_secret\n")
        self.octavo("remove", NAME, "--yes")
        (self.home / "token").write_text("hf_secret\n")
        self.pull()
        self.refuse("HF_TOKEN", HF_TOKEN="hf\nX-Evil: 1")

    def test_the_token_stays_at_the_hub(self):
        repo = self.gguf_repo(1000)
        repo.token = "hf_secret"
        cdn = HubServer()
        self.addCleanup(cdn.close)
        cdn.repos[NAME] = repo
        self.hub.cdn = cdn
        self.pull(HF_TOKEN="hf_secret")
        self.assertEqual(len(cdn.requests), 1)
        self.assertNotIn("Authorization", cdn.requests[0][2])
        self.assertTrue(all("Authorization" in h for _, _, h in self.hub.requests))

    def test_a_redirect_within_the_hub_keeps_the_token(self):
        repo = self.gguf_repo(1000)
        repo.token = "hf_secret"
        self.hub.failures = [(307, {"Location": f"/api/models/{NAME}/revision/main"})]
        self.pull(HF_TOKEN="hf_secret")
        self.hub.failures = [(302, {"Location": "/again"})] * 20
        self.refuse("redirects", HF_TOKEN="hf_secret")

    def test_missing(self):
        self.gguf_repo(1000)
        self.refuse("acme/none", "no such model", name="acme/none")
        self.refuse("model-Q4_K_M.gguf", "other.gguf", name=NAME + ":other.gguf")
        self.refuse("org/name", name="tiny")
        self.refuse("colon", name=NAME + ":../x")
        run = self.octavo("run", "acme/none", "hi")
        self.assertIn("no file here either", run.stderr)

    # --- the cache ------------------------------------------------------------------------------

    def test_two_at_once_download_once(self):
        repo = self.gguf_repo(2000000)
        self.hub.delay_s = 0.5
        children = [subprocess.Popen([OCTAVO, "pull", NAME], env=self.environment(),
                                     stdout=subprocess.PIPE, text=True) for _ in range(3)]
        paths = {child.communicate()[0].strip() for child in children}
        self.assertEqual([child.returncode for child in children], [0, 0, 0])
        self.assertEqual(len(paths), 1)
        self.assertEqual(Path(paths.pop()).read_bytes(), repo.files["model-Q4_K_M.gguf"])
        self.assertEqual(self.hub.count("GET", "/cdn/"), 1)

    def test_offline(self):
        self.gguf_repo(1000)
        self.refuse("HF_HUB_OFFLINE", "not in the cache", HF_HUB_OFFLINE="1")
        path = self.pull()
        self.assertEqual(self.pull(HF_HUB_OFFLINE="ON"), path)
        self.assertEqual(self.pull(NAME + ":Q4_K_M", HF_HUB_OFFLINE="true"), path)
        self.refuse("Q8_0", name=NAME + ":Q8_0", HF_HUB_OFFLINE="1")

    def test_where_the_cache_is(self):
        self.gguf_repo(1000)
        other = self.home / "other"
        self.assertTrue(self.pull(HF_HUB_CACHE=str(other)).is_relative_to(other))
        variables = {"HF_HOME": "", "XDG_CACHE_HOME": str(self.home / "xdg")}
        self.assertTrue(self.pull(**variables).is_relative_to(self.home / "xdg/huggingface/hub"))
        variables["XDG_CACHE_HOME"] = ""
        self.assertTrue(self.pull(**variables).is_relative_to(self.home / ".cache/huggingface/hub"))
        self.refuse("HF_ENDPOINT", HF_ENDPOINT="ftp://x")

    def test_list_and_remove(self):
        self.assertEqual(json.loads(self.octavo("list", "--json").stdout), [])
        self.folder_repo()
        path = self.pull()
        size = sum(p.stat().st_size for p in path.iterdir())
        rows = json.loads(self.octavo("list", "--json").stdout)
        self.assertEqual(rows, [{"name": NAME, "revisions": ["main"], "commit": COMMIT,
                                 "size_bytes": size, "path": str(path)}])
        table = self.octavo("list").stdout
        for part in (NAME, "main", str(path)):
            self.assertIn(part, table)
        asked = self.octavo("remove", NAME)
        self.assertEqual(asked.returncode, 2)
        self.assertIn("--yes", asked.stderr)
        self.assertTrue(path.exists())
        self.assertEqual(self.octavo("remove", NAME, "--yes").returncode, 0)
        self.assertFalse(self.repo_path().exists())
        for flags in [], ["--yes"]:  # it does not ask about what is not there
            again = self.octavo("remove", NAME, *flags)
            self.assertEqual(again.returncode, 1)
            self.assertIn("not in the cache", again.stderr)

    def in_terminal(self, arguments, typed=b""):
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(OCTAVO, [OCTAVO, *arguments], self.environment())
        if typed:
            os.write(fd, typed)
        seen = b""
        try:
            while chunk := os.read(fd, 4096):
                seen += chunk
        except OSError:
            pass
        os.close(fd)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen

    def test_a_terminal_sees_progress_and_is_asked(self):
        self.gguf_repo(3000000)
        code, seen = self.in_terminal(["pull", NAME])
        self.assertEqual(code, 0, seen)
        self.assertIn(b"downloading [###", seen)
        self.assertIn(b"of 3 MB", seen)
        code, seen = self.in_terminal(["remove", NAME], b"n\n")
        self.assertEqual(code, 1)
        self.assertIn(b"[y/N]", seen)
        self.assertTrue(self.repo_path().exists())
        code, seen = self.in_terminal(["remove", NAME], b"y\n")
        self.assertEqual(code, 0, seen)
        self.assertFalse(self.repo_path().exists())


if __name__ == "__main__":
    main()
