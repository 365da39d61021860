"""`octavo chat` and `octavo complete` against a server."""

import os
import subprocess
import unittest

from harness import OCTAVO, Server

GREEDY = ("--override-generation-config", '{"temperature": 0}')


def octavo(*arguments, stdin="", env=None):
    environment = {k: v for k, v in os.environ.items() if k != "OPENAI_API_KEY"}
    environment.update(env or {})
    run = subprocess.run([OCTAVO, *arguments], input=stdin.encode(), capture_output=True,
                         timeout=120, env=environment)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


class ClientsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(*GREEDY, "--api-key", "secret")
        cls.url = "http://%s:%d" % cls.server.address
        cls.flags = ("--url", cls.url, "--api-key", "secret", "--max-tokens", "8")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.log

    def post(self, path, body):
        return self.server.post(path, {**body, "max_tokens": 8},
                                {"Authorization": "Bearer secret"})[1]["choices"][0]

    def chat(self, *messages):
        body = {"messages": [{"role": role, "content": text} for role, text in messages]}
        return self.post("/v1/chat/completions", body)["message"]["content"]

    def test_complete(self):
        expected = self.post("/v1/completions", {"prompt": "Once upon a time"})["text"]
        self.assertEqual(octavo("complete", *self.flags, "-q", "Once upon a time"),
                         (0, expected + "\n", ""))
        other = self.post("/v1/completions", {"prompt": "Then"})["text"]
        self.assertEqual(octavo("complete", *self.flags, stdin="Once upon a time\nThen\n"),
                         (0, expected + "\n" + other + "\n", ""))

    def test_chat_remembers(self):
        first = self.chat(("system", "Be brief."), ("user", "Hello"))
        second = self.chat(("system", "Be brief."), ("user", "Hello"), ("assistant", first),
                           ("user", "Why?"))
        self.assertEqual(octavo("chat", *self.flags, "--system-prompt", "Be brief.",
                                stdin="Hello\nWhy?\n"), (0, first + "\n" + second + "\n", ""))
        self.assertEqual(octavo("chat", *self.flags, "--quick", "Hello")[1],
                         self.chat(("user", "Hello")) + "\n")

    def test_url_and_key(self):
        expected = self.post("/v1/completions", {"prompt": "x"})["text"] + "\n"
        for url in self.url, self.url + "/", self.url + "/v1", self.url + "/v1/":
            code, out, _ = octavo("complete", "--url", url, "--max-tokens", "8", "-q", "x",
                                  "--model-name", "tiny-too", env={"OPENAI_API_KEY": "secret"})
            self.assertEqual((code, out), (0, expected))
        self.assertNotIn("secret", octavo("chat", "--help", env={"OPENAI_API_KEY": "secret"})[1])

    def test_errors_say_what_the_server_says(self):
        code, _, error = octavo("complete", "--url", self.url, "-q", "x")
        self.assertEqual(code, 1)
        self.assertIn("401: Unauthorized", error)
        code, _, error = octavo("chat", *self.flags, "--model-name", "gpt", "-q", "x")
        self.assertEqual(code, 1)
        self.assertIn("404: The model `gpt` does not exist.", error)
        code, _, error = octavo("chat", "--url", "http://127.0.0.1:1", "-q", "x")
        self.assertEqual(code, 1)
        self.assertIn("http://127.0.0.1:1/v1/models", error)
        self.assertEqual(octavo("chat", "--frobnicate")[0], 2)


if __name__ == "__main__":
    unittest.main()
