"""Chat templates that are not the model's own: by flag, by request, and with contents as text or as
parts. What `/detokenize` shows of `/tokenize` is what the model would see."""

import json
import os
import subprocess
import tempfile
import unittest

from harness import DATA, OCTAVO, Server
from tiny_model import write_tiny_model

SIMPLE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
PARTS = ("{% for m in messages %}[{{ m.role }}]{% for part in m.content %}"
         " <{{ part.type }}:{{ part.text }}>{% endfor %};\n{% endfor %}")
MESSAGES = [{"role": "user", "content": "one"}]
TWO_PARTS = [{"role": "user", "content": [{"type": "text", "text": "one"},
                                          {"type": "text", "text": "two"}]}]


def prompt(server, messages=MESSAGES, **fields):
    status, body = server.post("/tokenize", {"messages": messages, **fields})
    if status != 200:
        return status, body["error"]["message"]
    return server.post("/detokenize", {"tokens": body["tokens"]})[1]["prompt"]


class TemplatesTest(unittest.TestCase):
    def test_a_file_and_a_text(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
            file.write(SIMPLE)
            file.flush()
            for value in file.name, SIMPLE:
                with Server("--chat-template", value) as server:
                    self.assertEqual(prompt(server), "[user] one\n")
                    self.assertEqual(prompt(server, TWO_PARTS), "[user] one\ntwo\n")
                    answer = server.post("/v1/chat/completions",
                                         {"messages": MESSAGES, "max_tokens": 2})
                    self.assertEqual(answer[0], 200)

    def test_octavo_generate_takes_it_too(self):
        lines = [{"messages": MESSAGES}, {"prompt": "[user] one\n", "add_special_tokens": False}]
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("tiny.gguf", "in", "out")]
            write_tiny_model(paths[0], os.path.join(DATA, "smollm2", "vocab.gguf"))
            with open(paths[1], "w", encoding="utf-8") as file:
                for line in lines:
                    file.write(json.dumps({**line, "max_tokens": 4, "temperature": 0}) + "\n")
            subprocess.run([OCTAVO, "generate", paths[0], "--input", paths[1], "--output", paths[2],
                            "--chat-template", SIMPLE, "--threads", "1"],
                           check=True, stderr=subprocess.DEVNULL)
            with open(paths[2], encoding="utf-8") as file:
                answers = [json.loads(line) for line in file]
        self.assertEqual(answers[0]["usage"]["prompt_tokens"],
                         answers[1]["usage"]["prompt_tokens"])
        self.assertEqual(answers[0]["outputs"], answers[1]["outputs"])

    def test_bad_templates_end_the_start(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
            file.write("{% for %}")
            file.flush()
            for value, part in [("{% if %}", "--chat-template"),
                                ("/no/such.jinja", "/no/such.jinja"),
                                (file.name, os.path.basename(file.name))]:
                with self.subTest(value=value), self.assertRaises(RuntimeError) as raised:
                    Server("--chat-template", value)
                self.assertIn(part, str(raised.exception))

    def test_templates_get_what_they_take(self):
        with Server("--chat-template", PARTS) as server:
            self.assertEqual(prompt(server), "[user] <text:one>;\n")
            self.assertEqual(prompt(server, TWO_PARTS), "[user] <text:one> <text:two>;\n")
            going_on = TWO_PARTS + [{"role": "assistant", "content": "Because"}]
            # The template closes the part; what follows the text is cut.
            self.assertEqual(prompt(server, going_on, continue_final_message=True,
                                    add_generation_prompt=False),
                             "[user] <text:one> <text:two>;\n[assistant] <text:Because")
        with Server("--chat-template", PARTS, "--chat-template-content-format", "string") as server:
            self.assertEqual(prompt(server).count("<:>"), 3)  # one for each letter
        with Server("--chat-template", SIMPLE,
                    "--chat-template-content-format", "openai") as server:
            self.assertEqual(prompt(server), "[user] [{'type': 'text', 'text': 'one'}]\n")

    def test_a_request_brings_its_own_where_it_may(self):
        with Server("--trust-request-chat-template") as server:
            self.assertIn("<|im_start|>", prompt(server))
            self.assertEqual(prompt(server, chat_template=SIMPLE), "[user] one\n")
            self.assertEqual(prompt(server, TWO_PARTS, chat_template=PARTS),
                             "[user] <text:one> <text:two>;\n")
            status, message = prompt(server, chat_template="{% if %}")
            self.assertEqual(status, 400)
            self.assertIn("template", message)
            self.assertIn("<|im_start|>", prompt(server))
        with Server() as server:
            status, message = prompt(server, chat_template=SIMPLE)
            self.assertEqual(status, 400)
            self.assertIn("--trust-request-chat-template", message)

    def test_what_a_user_writes_stays_text(self):
        with Server("--chat-template", PARTS) as server:
            ids = server.post("/tokenize", {"prompt": "<|im_end|>"})[1]["tokens"]
            tokens = server.post("/tokenize", {
                "messages": [{"role": "user", "content": "<|im_end|>"}]})[1]["tokens"]
            self.assertEqual(len(ids), 1)
            self.assertNotIn(ids[0], tokens)


if __name__ == "__main__":
    unittest.main()
