"""Structured outputs: the tiny model has random weights, so that its answers are random walks: what
they match, the masks alone make them match."""

import json
import re
import unittest

from api_case import MESSAGES, PROMPT, ApiCase
from harness import Server

SCHEMA = {"type": "object",
          "properties": {"name": {"type": "string", "maxLength": 12},
                         "age": {"type": "integer", "minimum": 0, "maximum": 150},
                         "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}},
          "required": ["name", "age", "tags"]}
LIST = {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 2}
WALK = {"temperature": 1.0, "max_tokens": 200}


class StructuredTest(ApiCase):
    def check_person(self, text):
        value = json.loads(text)
        self.assertEqual(list(value), ["name", "age", "tags"])
        self.assertLessEqual(len(value["name"]), 12)
        self.assertIn(value["age"], range(151))
        self.assertLessEqual(set(value["tags"]), {"a", "b"})
        self.assertLessEqual(len(value["tags"]), 3)

    def test_chats_answer_in_the_schema(self):
        form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA,
                                                       "strict": True}}
        for seed in range(5):
            choice = self.chat(**WALK, seed=seed, response_format=form)["choices"][0]
            self.assertEqual(choice["finish_reason"], "stop", choice)
            self.check_person(choice["message"]["content"])

    def test_every_name_of_the_field_works(self):
        for fields, pattern in [
                ({"structured_outputs": {"json": LIST}}, r"\[\s*(true|false)\s*,\s*\w+\s*\]"),
                ({"structured_outputs": {"json": json.dumps(LIST)}}, r"\[\s*\w+\s*,\s*\w+\s*\]"),
                ({"structured_outputs": {"regex": "[ab]{3}\\d"}}, r"[ab]{3}\d"),
                ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
                ({"structured_outputs": {"grammar": 'root ::= "x" [0-9]{2}'}}, r"x\d\d"),
                ({"guided_json": LIST}, r"\[\s*\w+\s*,\s*\w+\s*\]"),
                ({"guided_regex": "^a|b$", "guided_decoding_backend": "xgrammar"}, "a|b"),
                ({"guided_choice": ["\u00e9t\u00e9", "\u20ac"]}, "\u00e9t\u00e9|\u20ac"),
                ({"guided_grammar": 'root ::= "(" root ")" | "."'}, r"\(*\.\)*"),
                ({"grammar": 'root ::= "x"+ "y"'}, "x+y"),
                ({"json_schema": LIST}, r"\[\s*\w+\s*,\s*\w+\s*\]"),
                ({"response_format": {"type": "json_object", "schema": LIST}}, r"\[.*\]"),
                ({"response_format": {"type": "text"}, "grammar": ""}, None)]:
            with self.subTest(fields=fields):
                choice = self.complete(**WALK, seed=1, **fields)["choices"][0]
                if pattern is None:
                    continue
                self.assertEqual(choice["finish_reason"], "stop", choice)
                self.assertTrue(re.fullmatch(pattern, choice["text"], re.S), choice)

    def test_json_objects(self):
        for seed in range(3):
            choice = self.complete(temperature=0.7, max_tokens=1500, seed=seed,
                                   response_format={"type": "json_object"})["choices"][0]
            if choice["finish_reason"] == "stop":
                self.assertIsInstance(json.loads(choice["text"]), dict)
            self.assertTrue(choice["text"].startswith("{"))

    def test_streams_and_several_answers_are_the_same(self):
        fields = {**WALK, "n": 3, "seed": 5, "guided_json": SCHEMA}
        whole = self.complete(**fields)["choices"]
        texts = [""] * 3
        for event in self.server.stream("/v1/completions", {"prompt": PROMPT, **fields}):
            for choice in event["choices"]:
                texts[choice["index"]] += choice["text"]
        self.assertEqual(texts, [choice["text"] for choice in whole])
        for text in texts:
            self.check_person(text)

    def test_logprobs_show_the_mask(self):
        choice = self.complete(**WALK, logprobs=5, guided_choice=["a"])["choices"][0]
        self.assertEqual(choice["text"], "a")
        self.assertAlmostEqual(choice["logprobs"]["token_logprobs"][0], 0, places=5)
        self.assertEqual(choice["logprobs"]["top_logprobs"][0], {"a": 0})

    def test_min_tokens_and_ignore_eos_do_not_leave_the_grammar(self):
        choice = self.complete(max_tokens=30, min_tokens=20, guided_choice=["ab"])["choices"][0]
        self.assertEqual((choice["text"], choice["finish_reason"]), ("ab", "stop"))
        choice = self.complete(max_tokens=30, ignore_eos=True, guided_choice=["ab"])["choices"][0]
        self.assertEqual((choice["text"], choice["finish_reason"]), ("ab", "length"))

    def test_drafts_change_nothing(self):
        config = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1}
        fields = {**WALK, "seed": 3, "guided_regex": "(true, ){8}true"}
        server = Server("--speculative-config", json.dumps(config))
        try:
            status, body = server.post("/v1/completions", {"prompt": "true, true,", **fields})
            accepted = server.metric("vllm:spec_decode_num_accepted_tokens_total")
        finally:
            server.stop()
        self.assertEqual(status, 200, body)
        self.assertGreater(accepted, 0)
        self.assertEqual(body["choices"][0]["text"], "true, " * 8 + "true")
        self.assertEqual(self.complete(prompt="true, true,", **fields)["choices"][0]["text"],
                         body["choices"][0]["text"])

    def test_one_form_only(self):
        for fields, part in [
                ({"guided_json": LIST, "guided_regex": "a"}, "guided_regex and guided_json"),
                ({"structured_outputs": {"regex": "a", "json": LIST}}, "cannot be given together"),
                ({"response_format": {"type": "json_object"}, "grammar": "root ::= \"a\""},
                 "grammar and response_format.type"),
                ({"structured_outputs": {}}, "must have one of"),
                ({"structured_outputs": {"choice": []}}, "choice is empty"),
                ({"guided_choice": []}, "guided_choice is empty"),
                ({"response_format": {"type": "json_schema"}}, "json_schema is missing"),
                ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
                 "json_schema.schema is missing"),
                ({"response_format": {"type": "structural_tag"}}, "response_format.type"),
                ({"structured_outputs": {"structural_tag": {}}}, "structural_tag"),
                ({"guided_json": {"not": {}}}, "guided_json: #: the keyword not"),
                ({"guided_json": "{"}, "guided_json: the schema"),
                ({"response_format": {"type": "json_schema", "json_schema": {"schema": {
                    "properties": {"a": {"format": "email"}}}}}},
                 "response_format.json_schema.schema: #/properties/a: the format email"),
                ({"guided_regex": "(?=a)"}, "guided_regex: position"),
                ({"grammar": "root ::= root"}, "grammar: "),
                ({"guided_json": {"$ref": "#"}}, "no text can match")]:
            with self.subTest(fields=fields):
                answer = self.refused("/v1/completions", {"prompt": PROMPT, **fields}, part)
                self.assertIn((answer["error"]["param"] or "").split(".")[0], fields)
                self.refused("/v1/chat/completions", {"messages": MESSAGES, **fields}, part)
        self.complete(guided_choice=["a"])  # and it goes on


if __name__ == "__main__":
    unittest.main()
