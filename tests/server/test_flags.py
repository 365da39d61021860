"""The flags of `octavo serve`: what is refused and how, and that docs/flags.md is the table."""

import os
import subprocess
import tempfile
import unittest

OCTAVO = os.environ["OCTAVO_BINARY"]
DOCS = os.path.join(os.environ["OCTAVO_TEST_DATA"], "..", "..", "docs")


def serve(*flags):
    """Exit code and standard error; the model does not exist, so that nothing ever serves."""
    run = subprocess.run([OCTAVO, "serve", *flags], capture_output=True, text=True, timeout=60)
    return run.returncode, run.stderr


class FlagsTest(unittest.TestCase):
    def test_the_document_is_the_table(self):
        run = subprocess.run([OCTAVO, "serve", "--help-markdown"], capture_output=True, text=True)
        with open(os.path.join(DOCS, "flags.md"), encoding="utf-8") as file:
            self.assertEqual(run.stdout, file.read(),
                             "octavo serve --help-markdown > docs/flags.md brings it up to date")

    def test_help_names_every_group(self):
        run = subprocess.run([OCTAVO, "serve", "--help"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0)
        for part in "Examples:", "Model:", "Scheduling:", "Front end:", "--max-num-seqs":
            self.assertIn(part, run.stdout)

    def test_bad_flags_are_named(self):
        for flags, part in [
                (["m", "--max-num-seq", "3"], "did you mean --max-num-seqs"),
                (["m", "--frobnicate"], "unknown flag --frobnicate"),
                (["m", "--port", "x"], "--port x"), (["m", "--port", "70000"], "--port 70000"),
                (["m", "--port"], "--port needs a value"), ([], "MODEL"),
                (["m", "n"], "'n'"), (["m", "--no-port", "1"], "--no-port"),
                (["m", "--max-model-len", "0"], "--max-model-len"),
                (["m", "--api-key", ""], "--api-key"),
                (["m", "--served-model-name", ""], "--served-model-name"),
                (["m", "--max-connections", "0"], "--max-connections"),
                (["m", "--max-logprobs", "21"], "--max-logprobs"),
                (["m", "--max-logprobs", "-2"], "--max-logprobs"),
                (["m", "--block-size", "1.5"], "--block-size"),
                (["m", "--tensor-parallel-size", "2"], "one device"),
                (["m", "-tp", "2"], "--tensor-parallel-size"),
                (["m", "--enable-lora"], "LoRA"),
                (["m", "--speculative-config", '{"method": 1}'], "--speculative-config"),
                (["m", "--speculative-config", '{"k": 1}'], "'k' is not known"),
                (["m", "--speculative-config", '{"k": null}'], "'k' is not known"),
                (["m", "--speculative-config.num_speculative_tokens", "x"],
                 "num_speculative_tokens"),
                (["m", "--speculative-model", "x"], "use --speculative-config"),
                (["m", "--override-generation-config", "[1]"], "--override-generation-config"),
                (["m", "--uvicorn-log-level", "loud"], "loud"),
                (["m", "--config", "/no/such/file"], "/no/such/file")]:
            with self.subTest(flags=flags):
                code, error = serve(*flags)
                self.assertEqual(code, 2, error)
                self.assertIn(part, error)

    def test_what_is_off_or_has_no_effect_is_accepted(self):
        code, error = serve("no-such.gguf", "-tp", "1", "--no-enable-lora", "--enforce-eager",
                            "--max_num_seqs=64", "--max-model-len", "32k", "--quantization", "auto")
        self.assertEqual(code, 1)
        self.assertIn("no-such.gguf", error)
        self.assertEqual(error.count("warning"), 1)
        self.assertIn("--enforce-eager has no effect", error)

    def config(self, text, *flags):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            return serve("--config", file.name, *flags)

    def test_config_file(self):
        code, error = self.config("model: from-file.gguf\nport: 1\napi-key: [a, b]\n"
                                  "enable_prefix_caching: false\n"
                                  "default-chat-template-kwargs: {a: 1}\n")
        self.assertEqual(code, 1)
        self.assertIn("from-file.gguf", error)
        self.assertIn("mine.gguf", self.config("model: from-file.gguf\n", "mine.gguf")[1])
        for text, part in [("portt: 1", "did you mean --port"), ("port: [1, 2]", "port"),
                           ("enforce-eager: maybe", "enforce-eager"), ("- a", "flag: value"),
                           ("a: [", "line 1"), ("port: {a: 1}", "--port")]:
            with self.subTest(text=text):
                code, error = self.config(text)
                self.assertEqual(code, 2, error)
                self.assertIn(part, error)


if __name__ == "__main__":
    unittest.main()
