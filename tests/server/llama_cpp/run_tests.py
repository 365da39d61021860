#!/usr/bin/env python3
"""The tests of llama.cpp's server, those that ask for what any server with OpenAI's API has, on
octavo:

  OCTAVO_BINARY=build/cpu/octavo tests/server/llama_cpp/run_tests.py SOURCE [--model M] [--venv DIR]

SOURCE is a checkout of llama.cpp, or an address that git can clone: its tests are not part of this
repository. `llama-server` beside this file stands in for what they start. PORTABLE names the tests,
and for those that cannot pass why; one that ends otherwise than it says there makes this fail.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["pytest", "pytest-xdist", "filelock", "numpy", "openai", "prometheus-client",
            "requests", "wget", "aiohttp"]
PASSES = ""
STORIES = "compares text or counts tokens of its own model, which is another here"
NATIVE = "asks for a route or a form of llama.cpp's own"
WORDING = "wants the type or words that llama.cpp has for an error"
CORS = "wants the origin sent back, with credentials; octavo answers * unless flags say otherwise"
MIXED = "wants token ids and strings mixed in one prompt"
FIRST_CHUNK = "wants null as content beside the role; OpenAI and vLLM send an empty string"
TWO_ANSWERS = "wants two messages of the assistant in a row refused; that is left to the template"

# file, test, why it cannot pass
PORTABLE = [
    ("test_basic", "test_server_start_simple", PASSES),
    ("test_chat_completion", "test_chat_completion", STORIES),
    ("test_chat_completion", "test_chat_completion_stream", STORIES),
    ("test_chat_completion", "test_chat_completion_with_openai_library", STORIES),
    ("test_chat_completion", "test_chat_completion_cached_tokens", STORIES),
    ("test_chat_completion", "test_chat_template_continue_final_message_mutual_exclusion", PASSES),
    ("test_chat_completion", "test_completion_with_response_format", STORIES),
    ("test_chat_completion", "test_completion_with_json_schema", STORIES),
    ("test_chat_completion", "test_invalid_chat_completion_req", TWO_ANSWERS),
    ("test_chat_completion", "test_logprobs", PASSES),
    ("test_chat_completion", "test_logprobs_stream", FIRST_CHUNK),
    ("test_chat_completion", "test_logit_bias", NATIVE),
    ("test_chat_completion", "test_context_size_exceeded", WORDING),
    ("test_chat_completion", "test_context_size_exceeded_stream", WORDING),
    ("test_chat_completion", "test_chat_completions_multiple_choices", PASSES),
    ("test_completion", "test_completion_with_openai_library", STORIES),
    ("test_completion", "test_completion_stream_with_openai_library", STORIES),
    ("test_completion", "test_completion_stream_with_openai_library_stops", STORIES),
    ("test_embedding", "test_embedding_single", PASSES),
    ("test_embedding", "test_embedding_multiple", PASSES),
    ("test_embedding", "test_embedding_multiple_with_fa", PASSES),
    ("test_embedding", "test_embedding_mixed_input", MIXED),
    ("test_embedding", "test_embedding_content_text_same_as_string", NATIVE),
    ("test_embedding", "test_embedding_invalid_input", PASSES),
    ("test_embedding", "test_embedding_pooling_mean", PASSES),
    ("test_embedding", "test_embedding_pooling_mean_multiple", PASSES),
    ("test_embedding", "test_embedding_openai_library_single", PASSES),
    ("test_embedding", "test_embedding_openai_library_multiple", PASSES),
    ("test_embedding", "test_embedding_openai_library_base64", PASSES),
    ("test_embedding", "test_same_prompt_give_same_result", PASSES),
    ("test_embedding", "test_embedding_error_prompt_too_long", WORDING),
    ("test_embedding", "test_embedding_usage_single", STORIES),
    ("test_embedding", "test_embedding_usage_multiple", STORIES),
    ("test_security", "test_access_public_endpoint", PASSES),
    ("test_security", "test_openai_library_correct_api_key", NATIVE),
    ("test_security", "test_cors_options", CORS),
]


def sources(source, folder):
    """The folder with llama.cpp's tests."""
    if not os.path.isdir(source):
        checkout = os.path.join(folder, "llama.cpp")
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", "--filter=blob:none",
                        "--sparse", source, checkout], check=True)
        subprocess.run(["git", "-C", checkout, "sparse-checkout", "set", "tools/server/tests"],
                       check=True)
        source = checkout
    return os.path.join(source, "tools", "server", "tests")


def run(python, tests, model):
    """The outcome of each test function: whether all its cases passed, and the first failure."""
    environment = {**os.environ, "LLAMA_SERVER_BIN_PATH": os.path.join(HERE, "llama-server"),
                   "OCTAVO_BINARY": os.path.abspath(os.environ["OCTAVO_BINARY"]),
                   "OCTAVO_TEST_MODEL": model, "PYTHONPATH": tests, "PORT": "18080"}
    report = os.path.join(tests, "report.xml")
    subprocess.run([python, "-m", "pytest", "-q", "--tb=line", "-p", "octavo_plugin",
                    f"--junitxml={report}",
                    *(f"unit/{file}.py::{test}" for file, test, _ in PORTABLE)],
                   cwd=tests, env=environment, check=False)
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        key = case.get("classname").split(".")[-1], case.get("name").split("[")[0]
        failure = case.find("failure") if case.find("failure") is not None else case.find("error")
        if failure is not None:
            outcomes[key] = failure.get("message")
        else:
            outcomes.setdefault(key, PASSES)
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--venv", default="build/llama-cpp-venv")
    args = parser.parse_args()
    python = os.path.join(os.path.abspath(args.venv), "bin", "python3")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", args.venv], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    with tempfile.TemporaryDirectory(prefix="octavo-llama-cpp-") as folder:
        tests = os.path.join(folder, "tests")
        shutil.copytree(sources(args.source, folder), tests)
        shutil.copy(os.path.join(HERE, "octavo_plugin.py"), tests)
        outcomes = run(python, tests, args.model)
    wrong = 0
    for file, test, why in PORTABLE:
        outcome = outcomes.get((file, test), "was not run")
        if (outcome == PASSES) != (why == PASSES):
            wrong += 1
            print(f"{file}: {test}: {outcome or 'passes'}; expected: {why or 'passes'}")
    passed = sum(why == PASSES for _, _, why in PORTABLE)
    print(f"{len(PORTABLE)} tests, of which {passed} can pass; {wrong} are not as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
