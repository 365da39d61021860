#!/usr/bin/env python3
"""Tests the layout rules of STYLE.md and docs/architecture.md. Standard library only, reads each
file once. `tools/tidy.py` checks the tree it lies in; `tools/tidy.py --self-test` feeds every rule
a small bad tree that it must refuse and a good one that it must pass (tools/tidy_selftest.py).
"""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tidy_source import CODE, CPP, CUDA, HEADERS, Source, Tree, code_spans, functions

# What a folder of src/ may include beside itself, the standard library and include/octavo.
# "folder/file.h" grants that one file.
MAY_INCLUDE = {
    "base": (),
    "tensor": ("base",),
    "formats": ("tensor", "base"),
    "hub": ("base",),
    "tokenizer": ("base",),
    "grammar": ("base",),
    "ops": ("tensor", "base"),
    "quant": ("ops", "formats", "tensor", "base"),
    "backends": ("ops", "tensor", "base"),
    "model": ("quant", "ops", "formats", "tensor", "base"),
    "engine": ("model", "tokenizer", "grammar", "formats", "ops", "tensor", "base",
               "backends/registry.h"),
    "server": ("base",),
    "cli": ("server", "hub", "formats", "quant", "base", "backends/registry.h",
            "backends/kernel_bench.h", "tokenizer/regex.h"),
}

MAX_COLUMNS = 100
WARN_LINES, MAX_LINES, MAX_CUDA_LINES = 400, 600, 800
MAX_FUNCTION_LINES, MAX_KERNEL_LINES = 70, 200

# Words that must not occur in any tracked text file, e.g. names that a release has retired.
BANNED_WORDS = ()

# Headers of the operating system and the compiler; other <...> names with a dot or a slash belong
# to a third party.
SYSTEM_HEADER = re.compile(
    r"(sys|linux|arpa|netinet|asm)/.+|(cpuid|dirent|dlfcn|fcntl|\w*intrin|poll|pthread|pwd|sched"
    r"|signal|spawn|stddef|stdint|termios|time|unistd)\.h")
CUDA_HEADER = re.compile(
    r"(cuda|cublas|cudnn|curand|nccl|nvml|nvtx|cooperative_groups|mma\.h|cub/|thrust/|cutlass/"
    r"|cute/)")


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    message: str
    error: bool = True

    def __str__(self):
        return f"{self.path}:{self.line}: {'' if self.error else 'warning: '}{self.message}"


def strip_stem(path):
    return path[:path.rindex(".")]


# --- includes ---------------------------------------------------------------------------------

def check_include_order(tree):
    for path, source in tree.under(("src/", "include/", "python/", "examples/")):
        top, _, rest = path.partition("/")
        folder = rest.partition("/")[0] if top == "src" else top
        if top == "src" and folder not in MAY_INCLUDE:
            yield Finding(path, 1, f"src/{folder} is not in the include order of tools/tidy.py")
            continue
        allowed = MAY_INCLUDE.get(folder, ())
        for line, quoted, name in source.includes():
            if not quoted:
                if top == "include" and not re.fullmatch(r"[a-z_]+|std(?:def|int)\.h", name):
                    yield Finding(path, line, f"a public header includes <{name}>; std only")
                continue
            if name.startswith("octavo/"):
                if not tree.exists("include/" + name):
                    yield Finding(path, line, f'"{name}" is not below include/')
                continue
            target = name.partition("/")[0]
            if not tree.exists("src/" + name):
                yield Finding(path, line, f'"{name}" is not below src/: write the path from there')
            elif target != folder and target not in allowed and name not in allowed:
                yield Finding(path, line, f'{folder} may not include "{name}"')


def check_cuda_includes(tree):
    for path, source in tree.under(("src/", "include/", "python/")):
        if path.startswith("src/backends/cuda/"):
            continue
        for line, _, name in source.includes():
            if CUDA_HEADER.match(name):
                yield Finding(path, line, f"<{name}> outside src/backends/cuda")
        if path.endswith(CUDA):
            yield Finding(path, 1, "a CUDA file outside src/backends/cuda")


def check_third_party_wrappers(tree):
    users = {}  # library -> {wrapper without extension: first use}
    for path, source in tree.under(("src/", "include/", "python/")):
        for line, quoted, name in source.includes():
            if quoted or not re.search(r"[./]", name):
                continue
            if SYSTEM_HEADER.fullmatch(name) or CUDA_HEADER.match(name):
                continue
            parts = re.sub(r"\.\w+$", "", name).split("/")
            library = "/".join(parts[:2]) if parts[0] == "boost" else parts[0]
            users.setdefault(library, {}).setdefault(strip_stem(path), (path, line))
    for library, uses in users.items():
        in_server = all(stem.startswith("src/server/http/") for stem in uses)
        limit = 2 if library in ("boost/beast", "boost/asio") and in_server else 1
        if len(uses) > limit:
            names = ", ".join(sorted(path for path, _ in uses.values()))
            path, line = max(uses.values())
            yield Finding(path, line, f"<{library}> is included by {names}: one wrapper may")


# --- what code may not say ---------------------------------------------------------------------

def code_pattern(pattern, message, folders=("src/", "include/"), exempt=()):
    compiled = re.compile(pattern)

    def check(tree):
        for path, source in tree.under(folders):
            if not path.startswith(exempt):
                for m in compiled.finditer(source.code):
                    yield Finding(path, source.line_of(m.start()), message)
    return check


check_cuda_switch = code_pattern(
    r"\bOCTAVO_WITH_CUDA\b", "OCTAVO_WITH_CUDA belongs to src/backends/registry.cpp alone",
    ("src/", "include/", "tests/"), ("src/backends/registry.cpp",))
check_regex = code_pattern(
    r"\bstd::w?regex\b|#\s*include\s*<regex>", "std::regex: slow, and deep input ends the process",
    ("src/", "include/", "tests/"))
check_printing = code_pattern(
    r"\bstd::(cout|cerr|clog)\b|\b(std::)?(printf|fprintf|vprintf|puts|putchar)\s*\(",
    "the library never prints: use base/log.h, or return a Status",
    exempt=("src/cli/", "src/base/check.cpp", "src/backends/cuda/ptx/"))  # device-side traps
check_environment = code_pattern(
    r"\b(secure_)?getenv\b", "the environment is read by src/base/env.cpp alone",
    exempt=("src/base/env.cpp",))


def check_machine_paths(tree):
    pattern = re.compile(r"(?<![\w.~}])/(?:work|root|home)/")
    for path, source in sorted(tree.sources.items()):
        for m in pattern.finditer(source.text):
            yield Finding(path, source.line_of(m.start()), f"the path of one machine: {m.group()}")


def check_banned_words(tree, words=BANNED_WORDS):
    if not words:
        return
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, words)) + r")\b", re.IGNORECASE)
    for path, source in sorted(tree.sources.items()):
        for m in pattern.finditer(source.text):
            yield Finding(path, source.line_of(m.start()), f"banned word: {m.group()}")


def check_todo(tree):
    pattern = re.compile(r"\b(?:TODO|FIXME|XXX)\b(?!\(#\d+\))")
    for path, source in sorted(tree.sources.items()):
        if path.startswith("tools/tidy"):  # speaks of them
            continue
        for m in pattern.finditer(source.text):
            if path.endswith(CODE):
                yield Finding(path, source.line_of(m.start()), "write TODO(#issue)")
            elif path.endswith(".md") and path != "STYLE.md":
                yield Finding(path, source.line_of(m.start()), "something is left to do", False)


# --- sizes and shapes --------------------------------------------------------------------------

def check_sizes(tree):
    for path, source in sorted(tree.sources.items()):
        if not path.endswith(CODE) and Path(path).name != "CMakeLists.txt":
            continue
        count = len(source.lines)
        limit = MAX_CUDA_LINES if path.endswith(CUDA) else MAX_LINES
        if count > limit:
            yield Finding(path, limit, f"{count} lines: more than {limit}")
        elif count > WARN_LINES:
            yield Finding(path, WARN_LINES, f"{count} lines: split it?", False)
        for number, line in enumerate(source.lines, 1):
            if len(line) > MAX_COLUMNS:
                yield Finding(path, number, f"{len(line)} columns: more than {MAX_COLUMNS}")


def check_functions(tree):
    for path, source in tree.under(("src/", "include/", "tests/", "bench/", "python/")):
        for name, first, last, is_kernel in functions(source):
            limit = MAX_KERNEL_LINES if is_kernel else MAX_FUNCTION_LINES
            if last - first + 1 > limit:
                yield Finding(path, first, f"{name}: {last - first + 1} lines: more than {limit}")


def check_header_heads(tree):
    for path, source in tree.under(("src/", "include/"), HEADERS):
        if not source.text.startswith("// "):
            yield Finding(path, 1, "no head comment saying what this is for")
        if not re.search(r"^#pragma once$", source.text, re.MULTILINE):
            yield Finding(path, 1, "no #pragma once")


# --- nothing dead, nothing stale ---------------------------------------------------------------

def cmake_tokens(tree, folder):
    """Patterns of the file names in the CMakeLists.txt of `folder`; ${...} and * stand for any."""
    source = tree.sources.get(f"{folder}/CMakeLists.txt")
    if source is None:
        return []
    text = re.sub(r"#[^\n]*", "", source.text).replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
    tokens = re.findall(r"[^\s()\";]+\.(?:cpp|cu)\b", text)
    return [re.sub(r"\\\$\\\{\w+\\\}|\\\*", r"[^/]*", re.escape(token)) for token in tokens]


def check_dead_files(tree):
    for path, _ in tree.under(("src/", "tests/", "bench/", "examples/"), (".cpp", ".cu")):
        parents = [str(p) for p in Path(path).parents][:-1]
        if not any(re.fullmatch(pattern, path[len(folder) + 1:])
                   for folder in parents for pattern in cmake_tokens(tree, folder)):
            yield Finding(path, 1, "in no CMakeLists.txt of its folder or above")
    included = {name for _, source in tree.under(("",)) for _, _, name in source.includes()}
    for path, _ in tree.under(("src/",), HEADERS + (".inl",)):
        if path[len("src/"):] not in included:
            yield Finding(path, 1, "included by nobody")


TOP_FOLDERS = (r"src|scripts|tools|tests|include|cmake|docs|bench|deploy|python|web|examples|\.ci")
FOREIGN_COMMAND = re.compile(r"\s*\$?\s*(?:\w+=\S+ )*(?:cmake|ctest|git|apt-get|pip3?|python3 -m|"
                             r"clang-\S+|gdb|perf|docker|curl|nvcc|ncu|llama-server)\b")


def named_paths(span):
    for m in re.finditer(rf"(?<![\w./~-])(?:{TOP_FOLDERS})/[\w./-]*(?![\w<*{{$])", span):
        yield m.group().rstrip(".")
    for m in re.finditer(r"(?<![\w./~-])([a-z_]+)/[\w/]+\.(?:h|cpp|cuh|cu)\b", span):
        if m.group(1) in MAY_INCLUDE:
            yield "src/" + m.group()
        elif m.group(1) == "octavo":
            yield "include/" + m.group()


def check_docs(tree):
    folders = ("src/cli/", "scripts/", "tools/", "bench/")
    programs = "\n".join(s.text for _, s in tree.under(folders, CODE))
    for path, source in tree.under(("",), (".md",)):
        for line, span in code_spans(source):
            for name in named_paths(span):
                if not tree.exists(name):
                    yield Finding(path, line, f"{name} does not exist")
            if FOREIGN_COMMAND.match(span):
                continue
            for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", span):
                if not re.search(re.escape(flag) + r"(?![\w-])", programs):
                    yield Finding(path, line, f"no program here has the flag {flag}")
        for m in re.finditer(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", source.text):
            target = os.path.normpath(os.path.join(os.path.dirname(path), m.group(1)))
            if not tree.exists(target):
                yield Finding(path, source.line_of(m.start()), f"a link to {target}: not there")


def check_environment_docs(tree):
    """Every variable the code reads has a section in docs/env.md, and the other way round."""
    read = {}
    for path, source in tree.under(("src/",)):
        for m in re.finditer(r'env_string\("(\w+)"\)', source.text):
            if m.group(1).startswith("OCTAVO_"):
                read.setdefault(m.group(1), (path, source.line_of(m.start())))
    docs = tree.sources.get("docs/env.md", Source(""))
    described = {m.group(1): docs.line_of(m.start())
                 for m in re.finditer(r"^## `?(OCTAVO_\w+)", docs.text, re.MULTILINE)}
    for name in sorted(read.keys() - described.keys()):
        yield Finding(*read[name], f"{name} has no section in docs/env.md")
    scripts = "".join(s.text for _, s in tree.under(("scripts/", "tests/"), CODE))
    for name in sorted(described.keys() - read.keys()):
        if name not in scripts:
            yield Finding("docs/env.md", described[name], f"nothing reads {name}")


RULES = (
    check_include_order, check_cuda_includes, check_third_party_wrappers, check_cuda_switch,
    check_regex, check_printing, check_environment, check_machine_paths, check_banned_words,
    check_todo, check_sizes, check_functions, check_header_heads, check_dead_files, check_docs,
    check_environment_docs,
)


def main(arguments):
    if arguments == ["--self-test"]:
        import tidy_selftest
        return tidy_selftest.run()
    if arguments:
        print("usage: tools/tidy.py [--self-test]", file=sys.stderr)
        return 2
    tree = Tree.read(Path(__file__).resolve().parent.parent)
    findings = sorted({f for rule in RULES for f in rule(tree)}, key=lambda f: (f.path, f.line))
    for finding in findings:
        print(finding)
    errors = sum(f.error for f in findings)
    print(f"tidy: {len(tree.sources)} files, {errors} errors, {len(findings) - errors} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
