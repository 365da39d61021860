"""A server on a tiny model, and how tests of its API ask it."""

import unittest

from harness import Server

PROMPT = "The quick brown fox"
GREEDY = {"temperature": 0, "max_tokens": 12}
MESSAGES = [{"role": "user", "content": "Why is the sky blue?"}]


class ApiCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--enable-dev-endpoints", "--enable-prompt-tokens-details")

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, cls.server.log

    def complete(self, **fields):
        status, body = self.server.post("/v1/completions",
                                        {"model": "tiny", "prompt": PROMPT, **GREEDY, **fields})
        self.assertEqual(status, 200, body)
        return body

    def chat(self, **fields):
        status, body = self.server.post(
            "/v1/chat/completions", {"model": "tiny", "messages": MESSAGES, **GREEDY, **fields})
        self.assertEqual(status, 200, body)
        return body

    def refused(self, path, body, part, code=400):
        status, answer = self.server.post(path, body)
        self.assertEqual(status, code, answer)
        self.assertEqual(answer["error"]["code"], code)
        self.assertIn(part, answer["error"]["message"])
        return answer

    def tokens(self, text):
        return self.server.post("/tokenize", {"prompt": text})[1]["tokens"]
