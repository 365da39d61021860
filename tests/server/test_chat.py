"""/v1/chat/completions as clients see it."""

import unittest

from api_case import GREEDY, MESSAGES, ApiCase


class ChatTest(ApiCase):
    def test_chat_has_the_form_of_openai(self):
        body = self.chat(logprobs=True, top_logprobs=2)
        self.assertTrue(body["id"].startswith("chatcmpl-"))
        self.assertEqual(body["object"], "chat.completion")
        choice = body["choices"][0]
        self.assertEqual(choice["message"]["role"], "assistant")
        content = choice["logprobs"]["content"]
        self.assertEqual(len(content), 12)
        for entry in content:
            self.assertEqual(len(entry["top_logprobs"]), 2)
            self.assertEqual(entry["top_logprobs"][0]["token"], entry["token"])
        raw = b"".join(bytes(entry["bytes"]) for entry in content)
        self.assertEqual(raw.decode(errors="replace"), choice["message"]["content"])

    def test_chat_stream_is_the_whole(self):
        whole = self.chat()
        events = self.server.stream("/v1/chat/completions", {
            "messages": MESSAGES, **GREEDY,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True}})
        first = events[0]["choices"][0]
        self.assertEqual(first["delta"], {"role": "assistant", "content": ""})
        usage = events.pop()["usage"]
        self.assertEqual(usage["total_tokens"], whole["usage"]["total_tokens"])
        self.assertEqual(events[-1]["usage"]["completion_tokens"], 12)
        text = "".join(e["choices"][0]["delta"].get("content", "") for e in events)
        self.assertEqual(text, whole["choices"][0]["message"]["content"])
        self.assertEqual([e["choices"][0]["finish_reason"] for e in events][-1], "length")
        self.assertTrue(all(e["choices"][0]["finish_reason"] is None for e in events[:-1]))

    def test_chat_is_the_rendered_prompt(self):
        tokenized = self.server.post("/tokenize", {"messages": MESSAGES})[1]["tokens"]
        text = self.server.post("/detokenize", {"tokens": tokenized})[1]["prompt"]
        self.assertIn("<|im_start|>user\nWhy is the sky blue?<|im_end|>", text)
        self.assertTrue(text.endswith("<|im_start|>assistant\n"))
        self.assertEqual(self.chat()["choices"][0]["message"]["content"],
                         self.complete(prompt=tokenized)["choices"][0]["text"])

    def test_content_parts_are_joined(self):
        parts = [{"role": "user", "content": [{"type": "text", "text": "one"},
                                              {"type": "text", "text": "two"}]}]
        whole = [{"role": "user", "content": "one\ntwo"}]
        tokens = [self.server.post("/tokenize", {"messages": m})[1]["tokens"]
                  for m in (parts, whole)]
        self.assertEqual(tokens[0], tokens[1])

    def test_control_tokens_in_contents_are_text(self):
        message = {"role": "user", "content": "<|im_end|>"}
        tokens = self.server.post("/tokenize", {"messages": [message]})[1]["tokens"]
        im_end = self.tokens("<|im_end|>")
        self.assertEqual(len(im_end), 1)
        plain = self.server.post("/tokenize", {"messages": [{**message, "content": "x"}]})[1]
        self.assertEqual(tokens.count(im_end[0]), plain["tokens"].count(im_end[0]))

    def test_final_message_goes_on(self):
        messages = MESSAGES + [{"role": "assistant", "content": "Because of"}]
        tokens = self.server.post("/tokenize", {
            "messages": messages, "continue_final_message": True,
            "add_generation_prompt": False})[1]["tokens"]
        text = self.server.post("/detokenize", {"tokens": tokens})[1]["prompt"]
        self.assertTrue(text.endswith("<|im_start|>assistant\nBecause of"))
        self.refused("/v1/chat/completions",
                     {"messages": messages, "continue_final_message": True,
                      "add_generation_prompt": True}, "continue_final_message")

    def test_chat_goes_on_to_the_end_of_the_context(self):
        body = self.chat(max_tokens=None, ignore_eos=True, temperature=0)
        self.assertEqual(body["usage"]["total_tokens"], 2048)
        self.assertEqual(body["choices"][0]["finish_reason"], "length")

    def test_keys_that_clients_look_for_are_there(self):
        body = self.chat()
        self.assertEqual(set(body), {"id", "object", "created", "model", "choices", "service_tier",
                                     "system_fingerprint", "usage", "prompt_logprobs"})
        message = body["choices"][0]["message"]
        self.assertEqual({key for key in message if message[key] in (None, [])},
                         {"refusal", "annotations", "audio", "function_call", "tool_calls",
                          "reasoning", "reasoning_content"})
        events = self.server.stream("/v1/chat/completions", {"messages": MESSAGES, **GREEDY})
        self.assertFalse(any("usage" in event for event in events))
        self.assertTrue(all("stop_reason" not in e["choices"][0] for e in events[:-1]))
        self.assertIn("stop_reason", events[-1]["choices"][0])

    def test_max_completion_tokens_wins(self):
        for fields in ({"max_tokens": 9, "max_completion_tokens": 2},
                       {"max_tokens": None, "max_completion_tokens": 2},
                       {"max_tokens": 2, "max_completion_tokens": None}):
            self.assertEqual(self.chat(**fields)["usage"]["completion_tokens"], 2, fields)

    def test_top_logprobs_of_0_are_none(self):
        for fields in {"logprobs": True}, {"logprobs": True, "top_logprobs": 0}:
            content = self.chat(**fields)["choices"][0]["logprobs"]["content"]
            self.assertEqual([entry["top_logprobs"] for entry in content], [[]] * 12)
        self.assertIsNone(self.chat(top_logprobs=0)["choices"][0]["logprobs"])

    def test_bad_chats_are_named(self):
        for fields, part in [
                ({"messages": None}, "messages"), ({"messages": []}, "messages"),
                ({"messages": ["x"]}, "messages[0]"),
                ({"messages": [{"content": "x"}]}, "role"),
                ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "image_url"),
                ({"top_logprobs": 2}, "top_logprobs"), ({"logprobs": 5}, "logprobs"),
                ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
                ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
                ({"max_completion_tokens": 0}, "max_completion_tokens"), ({"n": 0}, "n is 0"),
                ({"function_call": "auto"}, "function_call"), ({"modalities": ["audio"]}, "text"),
                ({"tools": [{"type": "function"}]}, "tool_choice"),
                ({"tools": [{"type": "function"}], "tool_choice": "required"}, "tool_choice"),
                ({"tool_choice": "auto"}, "tool_choice"),
                ({"chat_template": "x"}, "chat_template")]:
            with self.subTest(fields=fields):
                self.refused("/v1/chat/completions", {"messages": MESSAGES, **fields}, part)


if __name__ == "__main__":
    unittest.main()
