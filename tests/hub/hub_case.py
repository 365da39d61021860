"""A hub on this machine, and the command that asks it: OCTAVO MODEL_FOLDER are the arguments."""

import hashlib
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from hub_server import HubServer, Repo

OCTAVO, GOLDENS = sys.argv[1], Path(sys.argv[2])
NAME = "acme/tiny"


def make_bytes(seed, count):
    block = hashlib.sha256(seed.encode()).digest()
    return (block * (count // len(block) + 1))[:count]


class HubCase(unittest.TestCase):
    def setUp(self):
        self.hub = HubServer()
        self.addCleanup(self.hub.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)
        self.cache = self.home / "hub"

    def environment(self, **variables):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("HF_") and "proxy" not in k.lower()}
        env |= {"HF_ENDPOINT": self.hub.url, "HF_HOME": str(self.home), "HOME": str(self.home)}
        return env | variables

    def octavo(self, *arguments, **variables):
        return subprocess.run([OCTAVO, *arguments], env=self.environment(**variables),
                              capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=120, check=False)

    def pull(self, name=NAME, *arguments, **variables):
        done = self.octavo("pull", name, *arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Path(done.stdout.strip())

    def refuse(self, *parts, name=NAME, arguments=(), **variables):
        done = self.octavo("pull", name, *arguments, **variables)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
        return done.stderr

    def gguf_repo(self, size=300000, names=("model-Q4_K_M.gguf",)):
        repo = Repo({name: make_bytes(name, size) for name in names}, large=names)
        self.hub.repos[NAME] = repo
        return repo

    def repo_path(self):
        return self.cache / "models--acme--tiny"

    def blobs(self):
        return sorted(p.name for p in (self.repo_path() / "blobs").glob("*"))

    def folder_repo(self):
        files = {"config.json": (GOLDENS / "config.json").read_bytes(),
                 "model.safetensors": (GOLDENS / "model.safetensors").read_bytes(),
                 "pytorch_model.bin": b"pickle", "README.md": b"#", "onnx/model.onnx": b"x",
                 "original/params.json": b"{}", "consolidated.safetensors": b"x"}
        self.hub.repos[NAME] = Repo(files, large=["model.safetensors", "pytorch_model.bin"])
        return self.hub.repos[NAME]


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
