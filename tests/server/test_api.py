"""What clients of vLLM and OpenAI see: every route, field and form of answer; chats are in
test_chat.py."""

import concurrent.futures
import email.utils
import json
import time
import unittest

from api_case import GREEDY, MESSAGES, PROMPT, ApiCase


class ApiTest(ApiCase):
    # --- completions

    def test_completion_has_the_form_of_openai(self):
        body = self.complete()
        self.assertTrue(body["id"].startswith("cmpl-"))
        self.assertEqual(body["object"], "text_completion")
        self.assertEqual(body["model"], "tiny")
        choice = body["choices"][0]
        self.assertEqual((choice["index"], choice["finish_reason"]), (0, "length"))
        usage = body["usage"]
        self.assertEqual(usage["completion_tokens"], 12)
        self.assertEqual(usage["prompt_tokens"], len(self.tokens(PROMPT)))
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + 12)

    def test_stream_is_the_whole(self):
        whole = self.complete(n=2, seed=5, temperature=1)
        events = self.server.stream("/v1/completions", {
            "prompt": PROMPT, "max_tokens": 12, "n": 2, "seed": 5, "temperature": 1,
            "stream_options": {"include_usage": True}})
        last = events.pop()
        self.assertEqual(last["choices"], [])
        self.assertEqual(last["usage"]["total_tokens"], whole["usage"]["total_tokens"])
        for choice in whole["choices"]:
            parts = [c for e in events for c in e["choices"] if c["index"] == choice["index"]]
            self.assertEqual("".join(p["text"] for p in parts), choice["text"])
            self.assertEqual([p["finish_reason"] for p in parts if p["finish_reason"]],
                             [choice["finish_reason"]])

    def test_prompts_in_all_forms_agree(self):
        ids = self.tokens(PROMPT)
        text = self.complete()["choices"][0]["text"]
        self.assertEqual(self.complete(prompt=ids)["choices"][0]["text"], text)
        both = self.complete(prompt=[PROMPT, "Another"])
        self.assertEqual([c["index"] for c in both["choices"]], [0, 1])
        self.assertEqual(both["choices"][0]["text"], text)
        other = self.complete(prompt="Another")["choices"][0]["text"]
        self.assertEqual(both["choices"][1]["text"], other)
        self.assertEqual(self.complete(prompt=[ids, ids])["choices"][1]["text"], text)

    def test_concurrent_is_alone(self):
        prompts = [f"Number {i} of the prompts" for i in range(12)]
        alone = [self.complete(prompt=p)["choices"][0]["text"] for p in prompts]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            together = list(pool.map(lambda p: self.complete(prompt=p), prompts))
        self.assertEqual([t["choices"][0]["text"] for t in together], alone)

    def test_echo_and_logprobs(self):
        ids = self.tokens(PROMPT)
        body = self.complete(echo=True, logprobs=2, return_tokens_as_token_ids=True)
        choice = body["choices"][0]
        self.assertTrue(choice["text"].startswith(PROMPT))
        logprobs = choice["logprobs"]
        self.assertEqual(len(logprobs["tokens"]), len(ids) + 12)
        self.assertEqual(logprobs["tokens"][:len(ids)], [f"token:{i}" for i in ids])
        self.assertIsNone(logprobs["token_logprobs"][0])
        self.assertTrue(all(p <= 0 for p in logprobs["token_logprobs"][1:]))
        # Greedy: what was chosen is the likeliest.
        for token, top in zip(logprobs["tokens"][len(ids):], logprobs["top_logprobs"][len(ids):]):
            self.assertEqual(max(top, key=top.get), token)

    def test_text_offsets_are_of_the_tokens(self):
        logprobs = self.complete(echo=True, logprobs=0)["choices"][0]["logprobs"]
        offset = 0
        for token, at in zip(logprobs["tokens"], logprobs["text_offset"]):
            self.assertEqual(at, offset)
            offset += len(token)

    def test_echo_without_an_answer_scores_the_prompt(self):
        body = self.complete(echo=True, logprobs=1, max_tokens=0)
        self.assertEqual(body["choices"][0]["text"], PROMPT)
        self.assertEqual(body["usage"]["completion_tokens"], 0)
        prompt_only = body["choices"][0]["logprobs"]["token_logprobs"]
        longer = self.complete(echo=True, logprobs=1)["choices"][0]["logprobs"]["token_logprobs"]
        self.assertEqual(prompt_only, longer[:len(prompt_only)])

    def test_streamed_logprobs_are_those_of_the_whole(self):
        whole = self.complete(logprobs=1, echo=True)["choices"][0]["logprobs"]
        events = self.server.stream("/v1/completions", {"prompt": PROMPT, **GREEDY, "logprobs": 1,
                                                        "echo": True})
        for key in whole:
            parts = [v for e in events for v in e["choices"][0]["logprobs"][key]]
            self.assertEqual(parts, whole[key], key)

    def test_prompt_logprobs(self):
        ids = self.tokens(PROMPT)
        logprobs = self.complete(prompt_logprobs=1)["choices"][0]["prompt_logprobs"]
        self.assertEqual(len(logprobs), len(ids))
        self.assertIsNone(logprobs[0])
        for token_id, position in zip(ids[1:], logprobs[1:]):
            self.assertIn(str(token_id), position)
            self.assertIn(1, [entry["rank"] for entry in position.values()])

    def test_stops(self):
        text = self.complete()["choices"][0]["text"]
        stop = text[len(text) // 2:][:3]
        choice = self.complete(stop=[stop])["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", stop))
        self.assertEqual(choice["text"], text[:text.index(stop)])
        included = {"stop": [stop], "include_stop_str_in_output": True}
        self.assertEqual(self.complete(**included)["choices"][0]["text"],
                         text[:text.index(stop)] + stop)
        events = self.server.stream("/v1/completions", {"prompt": PROMPT, **GREEDY, **included})
        self.assertEqual("".join(e["choices"][0]["text"] for e in events),
                         text[:text.index(stop)] + stop)
        ids = self.complete(return_token_ids=True)["choices"][0]["token_ids"]
        choice = self.complete(stop_token_ids=[ids[3]], return_token_ids=True)["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", ids[3]))
        self.assertEqual(choice["token_ids"], ids[:ids.index(ids[3]) + 1])

    def test_sampling_fields_reach_the_sampler(self):
        ids = self.complete(return_token_ids=True)["choices"][0]["token_ids"]
        banned = self.complete(logit_bias={str(ids[0]): -100}, return_token_ids=True)
        self.assertNotEqual(banned["choices"][0]["token_ids"][0], ids[0])
        only = self.complete(allowed_token_ids=[17], return_token_ids=True)
        self.assertEqual(set(only["choices"][0]["token_ids"]), {17})
        first = self.complete(top_k=1, temperature=1, return_token_ids=True)
        self.assertEqual(first["choices"][0]["token_ids"], ids)
        first = self.complete(min_p=1, temperature=1, return_token_ids=True)
        self.assertEqual(first["choices"][0]["token_ids"], ids)
        penalized = self.complete(prompt=[5, 6, 7], repetition_penalty=1e6, max_tokens=64,
                                  return_token_ids=True)["choices"][0]["token_ids"]
        self.assertEqual(len(penalized), len(set(penalized)))
        seeded = [self.complete(temperature=1, seed=9)["choices"][0]["text"] for _ in range(2)]
        self.assertEqual(seeded[0], seeded[1])
        self.assertNotEqual(self.complete(temperature=1, seed=10)["choices"][0]["text"], seeded[0])

    def test_truncated_prompt_is_its_end(self):
        ids = self.tokens(PROMPT)
        cut = self.complete(truncate_prompt_tokens=2)
        self.assertEqual(cut["usage"]["prompt_tokens"], 2)
        self.assertEqual(cut["choices"][0]["text"],
                         self.complete(prompt=ids[-2:])["choices"][0]["text"])
        cut = self.complete(truncate_prompt_tokens=2, truncation_side="right")
        self.assertEqual(cut["choices"][0]["text"],
                         self.complete(prompt=ids[:2])["choices"][0]["text"])

    def test_cache_salt_keeps_prefixes_apart(self):
        prompt = "A prompt that is long enough for several blocks of the cache. " * 8
        def cached(salt):
            body = self.complete(prompt=prompt, cache_salt=salt)
            return body["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(cached("a"), 0)
        self.assertGreater(cached("a"), 0)
        self.assertEqual(cached("b"), 0)

    # --- errors

    def test_bad_fields_are_named(self):
        base = {"prompt": PROMPT}
        for fields, part in [
                ({"temperature": -1}, "temperature"), ({"temperature": "hot"}, "temperature"),
                ({"top_p": 0}, "top_p"), ({"n": 0}, "n is 0"), ({"n": 100000}, "n is"),
                ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": 1.5}, "max_tokens"),
                ({"max_tokens": -1}, "max_tokens is -1"), ({"max_tokens": "3"}, "max_tokens"),
                ({"min_tokens": 17}, "min_tokens is 17"), ({"min_tokens": -1}, "min_tokens"),
                ({"top_k": -2}, "top_k"), ({"min_p": 1.1}, "min_p"),
                ({"presence_penalty": 2.1}, "presence_penalty"),
                ({"frequency_penalty": -2.1}, "frequency_penalty"),
                ({"repetition_penalty": 0}, "repetition_penalty"),
                ({"prompt_logprobs": 21}, "prompt_logprobs"), ({"cache_salt": ""}, "cache_salt"),
                ({"allowed_token_ids": []}, "allowed_token_ids"),
                ({"bad_words": [""]}, "bad_words"),
                ({"logprobs": 21}, "logprobs"), ({"logprobs": -1}, "logprobs"),
                ({"stop": [""]}, "stop"), ({"stop": 3}, "stop"),
                ({"logit_bias": {"x": 1}}, "logit_bias"),
                ({"logit_bias": {"999999": 1}}, "logit_bias"),
                ({"allowed_token_ids": [999999]}, "allowed_token_ids"),
                ({"prompt": []}, "prompt"), ({"prompt": ""}, "prompt"), ({"prompt": 3}, "prompt"),
                ({"prompt": [999999]}, "999999"), ({"prompt": [-1]}, "prompt"),
                ({"prompt": [""]}, "prompt"), ({"prompt": [[]]}, "prompt"),
                ({"prompt": [1] * 5000}, "maximum context length"),
                ({"stream_options": {"include_usage": True}}, "stream_options"),
                ({"stream_options": {}}, "stream_options"), ({"stream": "yes"}, "stream"),
                ({"stream": True, "prompt_logprobs": 1}, "prompt_logprobs"),
                ({"prompt_embeds": "AAAA"}, "prompt_embeds"),
                ({"kv_transfer_params": {"do_remote_decode": True}}, "kv_transfer_params"),
                ({"suffix": "x"}, "suffix"), ({"use_beam_search": True}, "use_beam_search"),
                ({"truncation_side": "middle"}, "truncation_side"),
                ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
                ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens")]:
            with self.subTest(fields=str(fields)[:60]):
                answer = self.refused("/v1/completions", {**base, **fields}, part)
                param = None if part == "maximum context length" else list(fields)[-1]
                self.assertEqual((answer["error"]["param"] or "").split(".")[0], param or "")
        self.assertEqual(self.complete()["usage"]["completion_tokens"], 12)

    def test_errors_name_the_field_of_any_route(self):
        for path, body, param in [
                ("/v1/completions", {}, "prompt"),
                ("/v1/completions", {"prompt": "a", "model": "no"}, "model"),
                ("/v1/chat/completions", {}, "messages"),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": 3}]},
                 "messages[0].content"),
                ("/v1/chat/completions", {"messages": MESSAGES, "max_completion_tokens": 0},
                 "max_completion_tokens"),
                ("/v1/chat/completions", {"messages": MESSAGES, "logit_bias": {"999999": 1}},
                 "logit_bias"),
                ("/v1/embeddings", {"input": "a", "encoding_format": "x"}, "encoding_format"),
                ("/tokenize", {"prompt": 3}, "prompt"), ("/detokenize", {}, "tokens"),
                ("/detokenize", {"tokens": [999999]}, "tokens"),
                ("/generate", {"prompt": "a", "n": 0}, "n")]:
            with self.subTest(path=path, body=str(body)[:60]):
                status, answer = self.server.post(path, body)
                self.assertIn(status, (400, 404), answer)
                self.assertEqual(answer["error"]["param"], param, answer)
        for body in ("", "[]", '{"the": '):  # of the body, not of a field
            self.assertIsNone(self.server.post("/v1/completions", body)[1]["error"]["param"])

    def test_null_is_not_given(self):
        names = ("temperature", "top_p", "top_k", "n", "seed", "stop", "logprobs", "echo", "stream",
                 "stream_options", "logit_bias", "suffix", "user", "response_format", "best_of",
                 "structured_outputs", "allowed_token_ids", "cache_salt", "truncate_prompt_tokens")
        plain = self.complete(temperature=None, seed=1)["choices"]
        self.assertEqual(self.complete(**{**dict.fromkeys(names), "seed": 1})["choices"], plain)

    def test_fields_of_no_effect_are_accepted(self):
        plain = self.complete()["choices"]
        self.assertEqual(self.complete(
            best_of=2, length_penalty=1.5, use_beam_search=False, guided_json=None, user="me",
            spaces_between_special_tokens=False, response_format={"type": "text"}, suffix="",
            logit_bias={}, stop=[], metadata={}, store=False, service_tier="auto")["choices"],
            plain)

    def test_max_tokens_is_16_and_null_the_rest_of_the_context(self):
        body = {"prompt": [5] * 2000, "ignore_eos": True}
        for fields, tokens in ({}, 16), ({"max_tokens": None}, 48), ({"max_tokens": 9000}, 48):
            status, answer = self.server.post("/v1/completions", {**body, **fields})
            self.assertEqual((status, answer["usage"]["completion_tokens"]), (200, tokens), fields)

    def test_biases_are_clamped_as_in_vllm(self):
        answers = [self.complete(return_token_ids=True, logit_bias=bias)["choices"]
                   for bias in ({"17": 100, "18": 100}, {"17": 1e6, "18": 100},
                                {"17": 100, "18": 1e6})]
        self.assertEqual(answers[1:], answers[:1] * 2)

    def test_keys_that_clients_look_for_are_there(self):
        self.assertEqual(set(self.complete()), {
            "id", "object", "created", "model", "choices", "service_tier", "system_fingerprint",
            "usage"})
        self.assertEqual(set(self.complete()["choices"][0]), {
            "index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_logprobs"})
        for event in self.server.stream("/v1/completions", {"prompt": PROMPT, **GREEDY}):
            self.assertIsNone(event["usage"])
            self.assertIn("finish_reason", event["choices"][0])

    def test_unknown_model_is_not_found(self):
        self.refused("/v1/completions", {"model": "gpt", "prompt": PROMPT}, "`gpt`", 404)
        self.assertEqual(self.complete(model="tiny-too")["model"], "tiny")

    def test_unknown_fields_are_ignored(self):
        self.complete(made_up_field={"a": [1]}, user="me")
        self.assertTrue(any("made_up_field" in line for line in self.server.log))

    # --- other routes

    def test_small_routes(self):
        models = json.loads(self.server.get("/v1/models")[2])
        self.assertEqual([m["id"] for m in models["data"]], ["tiny", "tiny-too"])
        self.assertEqual(models["data"][0]["max_model_len"], 2048)
        for path in "/health", "/ping":
            self.assertEqual(self.server.get(path)[0], 200)
        self.assertIn("version", json.loads(self.server.get("/version")[2]))
        self.assertEqual(json.loads(self.server.get("/load")[2]), {"server_load": 0})
        document = json.loads(self.server.get("/openapi.json")[2])
        self.assertIn("post", document["paths"]["/v1/chat/completions"])
        self.assertEqual(self.server.get("/nothing")[0], 404)
        self.assertEqual(self.server.get("/v1/models/")[0], 200)
        self.refused("/v1/responses", {}, "use /v1/chat/completions", 404)
        status, headers, _ = self.server.request("GET", "/v1/completions")
        sent = email.utils.parsedate_to_datetime(headers["Date"]).timestamp()
        self.assertLess(abs(time.time() - sent), 60)
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(self.server.request("PUT", "/ping")[1]["Allow"], "GET, POST")

    def test_tokenize_and_back(self):
        body = self.server.post("/tokenize", {"prompt": PROMPT, "return_token_strs": True})[1]
        self.assertEqual(body["count"], len(body["tokens"]))
        self.assertEqual(len(body["token_strs"]), body["count"])
        self.assertEqual(body["max_model_len"], 2048)
        back = self.server.post("/detokenize", {"tokens": body["tokens"]})[1]
        self.assertEqual(back["prompt"], PROMPT)
        self.refused("/detokenize", {"tokens": [999999]}, "999999")
        self.refused("/tokenize", {}, "prompt")

    def test_generate_has_the_first_servers_form(self):
        text = self.complete()["choices"][0]["text"]
        status, body = self.server.post("/generate", {"prompt": PROMPT, **GREEDY})
        self.assertEqual((status, body), (200, {"text": [PROMPT + text]}))
        _, _, data = self.server.request("POST", "/generate",
                                         {"prompt": PROMPT, **GREEDY, "stream": True})
        lines = [json.loads(line)["text"][0] for line in data.decode().splitlines()]
        self.assertEqual(lines[-1], PROMPT + text)
        self.assertTrue(all(b.startswith(a) for a, b in zip(lines, lines[1:])))

    def test_invocations_are_told_by_their_bodies(self):
        def invoke(**body):
            status, answer = self.server.post("/invocations", body)
            return answer["object"] if status == 200 else answer["error"]["message"]
        self.assertEqual(invoke(messages=MESSAGES, **GREEDY), "chat.completion")
        self.assertEqual(invoke(prompt=PROMPT, **GREEDY), "text_completion")
        self.assertEqual(invoke(input=PROMPT), "list")
        self.assertIn("missing", invoke())

    def test_request_ids(self):
        status, headers, data = self.server.request(
            "POST", "/v1/completions", {"prompt": PROMPT, **GREEDY}, {"X-Request-Id": "mine"})
        self.assertEqual((status, json.loads(data)["id"]), (200, "cmpl-mine"))
        self.assertEqual(headers["X-Request-Id"], "mine")
        self.assertEqual(self.complete(request_id="other")["id"], "cmpl-other")

    def test_metrics_count_each_request_once(self):
        # The engine's own counters are as of the end of the last step, which is after an answer.
        self.assertTrue(self.server.wait_idle())
        before = self.server.metric("vllm:request_success_total")
        first_tokens = self.server.metric("vllm:time_to_first_token_seconds_count")
        tokens = self.server.metric("vllm:generation_tokens_total")
        self.complete()
        self.complete(n=2, stream=False)
        self.server.stream("/v1/completions", {"prompt": PROMPT, **GREEDY})
        self.assertEqual(self.server.metric("vllm:request_success_total"), before + 3)
        self.assertEqual(self.server.metric("vllm:time_to_first_token_seconds_count"),
                         first_tokens + 3)
        self.assertTrue(self.server.wait_idle())
        self.assertEqual(self.server.metric("vllm:generation_tokens_total"), tokens + 48)

    def test_metrics_are_well_formed(self):
        self.complete()
        names = set()
        for line in self.server.get("/metrics")[2].decode().splitlines():
            if line.startswith("# TYPE "):
                names.add(line.split()[2])
            elif not line.startswith("#"):
                name, value = line.split("{")[0], line.rsplit(" ", 1)[1]
                float(value)
                base = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
                self.assertTrue(name in names or base in names, name)
        self.assertIn("vllm:e2e_request_latency_seconds", names)

    def test_development_routes(self):
        self.server.post("/pause", {})
        self.assertEqual(json.loads(self.server.get("/is_paused")[2]), {"is_paused": True})
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            paused = pool.submit(self.complete)
            with self.assertRaises(concurrent.futures.TimeoutError):
                paused.result(0.5)
            self.server.post("/resume", {})
            self.assertEqual(paused.result(30)["usage"]["completion_tokens"], 12)
        self.assertTrue(self.server.wait_idle())
        self.assertEqual(self.server.post("/reset_prefix_cache", {})[0], 200)
        self.server.post("/pause", {})
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            aborted = pool.submit(self.complete)
            while json.loads(self.server.get("/load")[2])["server_load"] == 0:
                pass
            self.server.post("/abort_requests", {})
            self.server.post("/resume", {})
            self.assertEqual(aborted.result(30)["choices"][0]["finish_reason"], "abort")


if __name__ == "__main__":
    unittest.main()
