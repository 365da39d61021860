"""`octavo serve --speculative-config`: the same answers, in fewer steps, and what metrics say."""

import json
import os
import tempfile
import unittest

from harness import DATA, Server
from tiny_model import write_tiny_model

NGRAM = json.dumps({"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4,
                    "prompt_lookup_min": 1})
# Random weights soon repeat themselves; with temperature they do so now and then.
REQUESTS = [{"temperature": 0}, {"temperature": 0, "logprobs": 2}, {"temperature": 0.6, "seed": 3},
            {"temperature": 0.6, "seed": 4, "top_p": 0.8, "n": 3},
            {"temperature": 0.4, "seed": 5, "frequency_penalty": 0.3, "stop": ["the"]}]


def answers(server):
    got = []
    for fields in REQUESTS:
        status, answer = server.post("/v1/completions", {
            "model": "tiny", "prompt": "one two three one two three one", "max_tokens": 60,
            "ignore_eos": True, **fields})
        assert status == 200, answer
        got.append([(c["text"], c["finish_reason"], c["logprobs"]) for c in answer["choices"]])
    return got


class SpeculativeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Server() as server:
            cls.expected = answers(server)
            cls.plain_metrics = server.get("/metrics")[2].decode()

    def expect_same_answers(self, *flags, model=None):
        with Server(*flags, model=model) as server:
            self.assertEqual(answers(server), self.expected)
            self.assertTrue(server.wait_idle())
            return {name: server.metric(f"vllm:spec_decode_num_{name}_total")
                    for name in ("drafts", "draft_tokens", "accepted_tokens",
                                 "accepted_tokens_per_pos")}

    def test_ngram(self):
        counts = self.expect_same_answers("--speculative-config", NGRAM)
        self.assertGreater(counts["accepted_tokens"], 0)
        self.assertGreaterEqual(counts["draft_tokens"], counts["accepted_tokens"])
        self.assertGreaterEqual(counts["draft_tokens"], counts["drafts"])
        self.assertEqual(counts["accepted_tokens_per_pos"], counts["accepted_tokens"])

    def test_a_draft_model_by_flags_and_file(self):
        # The same model without its layers that do nothing: what is greedy, it guesses rightly.
        with tempfile.TemporaryDirectory() as folder:
            slow = os.path.join(folder, "slow.gguf")
            write_tiny_model(slow, os.path.join(DATA, "smollm2", "vocab.gguf"), idle_layers=120)
            config = os.path.join(folder, "serve.yaml")
            with open(config, "w", encoding="utf-8") as file:
                file.write(f"speculative-config: {{num_speculative_tokens: 3, "
                           f"model: {Server.model()}}}\n")
            counts = self.expect_same_answers("--config", config, "--threads", "1",
                                              "--speculative-config.method", "draft_model",
                                              model=slow)
        self.assertGreater(counts["accepted_tokens"], 60)

    def test_metrics_are_there_only_with_speculation(self):
        self.assertNotIn("spec_decode", self.plain_metrics)

    def test_a_stream_has_all_tokens(self):
        body = {"model": "tiny", "prompt": "a b a b a b", "max_tokens": 40, "temperature": 0,
                "ignore_eos": True, "return_token_ids": True}
        with Server("--speculative-config", NGRAM) as server:
            whole = server.post("/v1/completions", body)[1]["choices"][0]
            events = server.stream("/v1/completions", body)
        text = "".join(e["choices"][0]["text"] for e in events if e["choices"])
        self.assertEqual(text, whole["text"])

    def test_bad_draft_models_are_named(self):
        for config, part in [({"model": "/no/such.gguf"},
                              "--speculative-config: model: .*/no/such.gguf"),
                             ({"method": "eagle"}, "'eagle'"),
                             ({"method": "eagle", "model": "org/x"}, "'eagle'"),
                             ({"method": "ngram", "model": "org/x"}, "takes no model"),
                             ({"method": "draft_model"}, "needs a model")]:
            config["num_speculative_tokens"] = 2
            with self.subTest(config=config):
                with self.assertRaisesRegex(RuntimeError, part):
                    Server("--speculative-config", json.dumps(config)).__exit__()


if __name__ == "__main__":
    unittest.main()
