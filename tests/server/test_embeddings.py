"""POST /v1/embeddings as clients see it. What the values must be, tests/unit/engine judges."""

import base64
import math
import struct
import unittest

from harness import Server

TEXTS = ["The quick brown fox", "jumps over", "the lazy dog. " * 60]


def length(vector):
    return math.sqrt(sum(value * value for value in vector))


class EmbeddingsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--hf-overrides", '{"matryoshka_dimensions": [8, 16]}',
                            "--runner", "pooling", "--max-num-batched-tokens", "128")
        cls.plain = Server("--pooler-config", '{"pooling_type": "mean", "normalize": false}')

    @classmethod
    def tearDownClass(cls):
        for server in cls.server, cls.plain:
            assert server.stop() == 0, server.log

    def embed(self, value, server=None, **fields):
        status, body = (server or self.server).post("/v1/embeddings", {"input": value, **fields})
        self.assertEqual(status, 200, body)
        self.assertEqual([entry["index"] for entry in body["data"]], list(range(len(body["data"]))))
        return [entry["embedding"] for entry in body["data"]]

    def refused(self, body, part, code=400, server=None):
        status, answer = (server or self.server).post("/v1/embeddings", body)
        self.assertEqual(status, code, answer)
        self.assertIn(part, answer["error"]["message"])

    def test_the_form_is_openais(self):
        status, body = self.server.post("/v1/embeddings", {"model": "tiny", "input": TEXTS})
        self.assertEqual(status, 200, body)
        self.assertEqual((body["object"], body["model"]), ("list", "tiny"))
        self.assertTrue(body["id"].startswith("embd-"))
        counts = [self.server.post("/tokenize", {"prompt": text})[1]["count"] for text in TEXTS]
        self.assertEqual(body["usage"]["prompt_tokens"], sum(counts))
        self.assertEqual(body["usage"]["total_tokens"], sum(counts))
        for entry in body["data"]:
            self.assertEqual(entry["object"], "embedding")
            self.assertEqual(len(entry["embedding"]), 64)
            self.assertAlmostEqual(length(entry["embedding"]), 1, places=5)

    def test_inputs_in_all_forms_agree(self):
        alone = [self.embed(text)[0] for text in TEXTS]
        self.assertEqual(self.embed(TEXTS), alone)
        ids = [self.server.post("/tokenize", {"prompt": text})[1]["tokens"] for text in TEXTS]
        self.assertEqual(self.embed(ids), alone)
        self.assertEqual(self.embed(ids[0]), alone[:1])
        self.assertNotEqual(alone[0], alone[1])

    def test_base64_is_the_same_values(self):
        data = base64.b64decode(self.embed(TEXTS[0], encoding_format="base64")[0])
        values = struct.unpack(f"<{len(data) // 4}f", data)
        self.assertEqual(list(values), self.embed(TEXTS[0])[0])

    def test_dimensions(self):
        whole = self.embed(TEXTS[0])[0]
        cut = self.embed(TEXTS[0], dimensions=16)[0]
        scale = length(whole[:16])
        for value, expected in zip(cut, whole[:16], strict=True):
            self.assertAlmostEqual(value, expected / scale, places=5)
        self.refused({"input": "x", "dimensions": 9}, "8, 16")
        self.refused({"input": "x", "dimensions": 0}, "dimensions")
        self.refused({"input": "x", "dimensions": 16}, "is_matryoshka", server=self.plain)

    def test_the_servers_pooling_is_used(self):
        mean = self.embed(TEXTS[0], self.plain)[0]
        self.assertGreater(abs(length(mean) - 1), 1e-3)
        normalized = self.embed(TEXTS[0], self.plain, normalize=True)[0]
        for value, raw in zip(normalized, mean, strict=True):
            self.assertAlmostEqual(value, raw / length(mean), places=5)
        # The mean of one token is its last; the mean of several is not.
        ids = self.server.post("/tokenize", {"prompt": TEXTS[0]})[1]["tokens"]
        first = self.embed(ids[:1], self.plain, normalize=True)[0]
        for value, expected in zip(first, self.embed(ids[:1])[0], strict=True):
            self.assertAlmostEqual(value, expected, places=5)
        self.assertNotEqual(normalized, self.embed(TEXTS[0])[0])

    def test_long_inputs(self):
        ids = [7] * 2048
        self.assertEqual(len(self.embed(ids)[0]), 64)
        self.refused({"input": ids + [7]}, "maximum context length")
        cut = self.embed(ids + [7], truncate_prompt_tokens=-1)[0]
        self.assertEqual(cut, self.embed(ids)[0])
        ids = self.server.post("/tokenize", {"prompt": TEXTS[0]})[1]["tokens"]
        self.assertEqual(self.embed(ids, truncate_prompt_tokens=2), self.embed(ids[-2:]))
        self.assertEqual(self.embed(ids, truncate_prompt_tokens=2, truncation_side="right"),
                         self.embed(ids[:2]))

    def test_a_conversation(self):
        messages = [{"role": "user", "content": "Hello"}]
        status, body = self.server.post("/v1/embeddings", {"messages": messages})
        self.assertEqual(status, 200, body)
        tokens = self.server.post("/tokenize", {"messages": messages})[1]["tokens"]
        self.assertEqual(body["data"][0]["embedding"], self.embed(tokens)[0])

    def test_bad_fields_are_named(self):
        for fields, part in [({}, "input"), ({"input": []}, "input"), ({"input": ""}, "input"),
                             ({"input": 3}, "input"), ({"input": [1.5]}, "input"),
                             ({"input": [[999999]]}, "999999"), ({"input": [{}]}, "input"),
                             ({"input": "x", "encoding_format": "hex"}, "encoding_format"),
                             ({"input": "x", "dimensions": "8"}, "dimensions"),
                             ({"input": "x", "normalize": 1}, "normalize"),
                             ({"input": ["x"] * 3000}, "3000")]:
            with self.subTest(fields=str(fields)[:60]):
                self.refused(fields, part)
        self.refused({"model": "gpt", "input": "x"}, "`gpt`", 404)
        self.assertTrue(self.server.wait_idle())


if __name__ == "__main__":
    unittest.main()
