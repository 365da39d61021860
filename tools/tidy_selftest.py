"""Feeds each rule of tools/tidy.py small trees: bad ones, whose findings are named here by path,
line and a part of the message, and good ones, in which it must find nothing."""

import tidy
from tidy_source import Source, Tree, functions

HEAD = "// What it is for.\n#pragma once\n"
LONG_BODY = "  x();\n" * 80
SLASH = "/"  # the trees below must not make this file itself a finding

# (rule, {path: text}, [(path, line, part of the message)])
CASES = [
    (tidy.check_include_order, {
        "src/base/a.h": '#include "tensor/b.h"\n#include <vector>\n',
        "src/tensor/b.h": '#include "base/a.h"\n// #include "model/x.h"\n',
        "src/formats/c.cpp": '#include "tokenizer/d.h"\n#include "tensor/b.h"\n',
        "src/tokenizer/d.h": '#include "octavo/e.h"\n#include "d2.h"\n',
        "src/engine/f.cpp": '#include "backends/registry.h"\n#include "backends/backend.h"\n',
        "src/backends/registry.h": "", "src/backends/backend.h": '#include "quant/q.h"\n',
        "src/quant/q.h": '#include "formats/c.h"\n', "src/formats/c.h": "",
        "src/other/g.h": "", "include/octavo/e.h": '#include <span>\n#include <fmt/core.h>\n',
        "python/bindings.cpp": '#include "base/a.h"\n#include "octavo/gone.h"\n',
        "tests/unit/t.cpp": '#include "cli/anything.h"\n',
    }, [
        ("src/base/a.h", 1, "base may not include"),
        ("src/formats/c.cpp", 1, "formats may not include"),
        ("src/tokenizer/d.h", 2, "is not below src/"),
        ("src/engine/f.cpp", 2, "engine may not include"),
        ("src/backends/backend.h", 1, "backends may not include"),
        ("src/other/g.h", 1, "not in the include order"),
        ("include/octavo/e.h", 2, "std only"),
        ("python/bindings.cpp", 1, "python may not include"),
        ("python/bindings.cpp", 2, "is not below include/"),
    ]),
    (tidy.check_cuda_includes, {
        "src/model/a.cpp": "#include <cuda_runtime.h>\n",
        "src/backends/b.cu": "",
        "src/backends/cuda/c.cu": "#include <cuda_bf16.h>\n",
    }, [("src/model/a.cpp", 1, "outside"), ("src/backends/b.cu", 1, "outside")]),
    (tidy.check_third_party_wrappers, {
        "src/base/json.h": "#include <boost/json/value.hpp>\n#include <sys/mman.h>\n",
        "src/base/json.cpp": "#include <boost/json/src.hpp>\n#include <immintrin.h>\n",
        "src/base/sys.cpp": "#include <sys/mman.h>\n#include <unistd.h>\n#include <cstdint>\n",
        "src/base/log.cpp": "#include <spdlog/spdlog.h>\n",
        "src/model/m.cpp": "#include <cstdint>\n#include <spdlog/fmt/fmt.h>\n",
        "src/server/http/a.cpp": "#include <boost/beast/core.hpp>\n",
        "src/server/http/b.cpp": "#include <boost/beast/http.hpp>\n",
        "src/cli/c.cpp": "#include <utf8proc.h>\n",
        "tests/t.cpp": "#include <utf8proc.h>\n",
    }, [("src/model/m.cpp", 2, "<spdlog> is included by src/base/log.cpp, src/model/m.cpp")]),
    (tidy.check_cuda_switch, {
        "src/backends/registry.cpp": "#if OCTAVO_WITH_CUDA\n#endif\n",
        "src/model/a.cpp": "\n#if OCTAVO_WITH_CUDA\n#endif\n",
    }, [("src/model/a.cpp", 2, "registry.cpp alone")]),
    (tidy.check_regex, {
        "src/a.cpp": "#include <regex>\nstd::regex r; // std::regex\nauto s = \"std::regex\";\n",
    }, [("src/a.cpp", 1, "regex"), ("src/a.cpp", 2, "regex")]),
    (tidy.check_printing, {
        "src/model/a.cpp": "void f() { std::cout << 1; }\n// printf(x)\nvoid g() { printf(x); }\n",
        "src/model/b.cpp": "std::snprintf(buffer, 3, x);\nauto s = \"printf(\";\nto_puts(x);\n",
        "src/cli/c.cpp": "void f() { std::cout << 1; }\n",
        "src/base/check.cpp": "std::fprintf(stderr, x);\n",
    }, [("src/model/a.cpp", 1, "never prints"), ("src/model/a.cpp", 3, "never prints")]),
    (tidy.check_environment, {
        "src/base/env.cpp": "std::getenv(name);\n", "src/base/log.cpp": "std::getenv(name);\n",
    }, [("src/base/log.cpp", 1, "env.cpp alone")]),
    (tidy.check_machine_paths, {
        "scripts/a.sh": f"#!/bin/sh\ncat {SLASH}home/me/x\n",
        "docs/b.md": f"~/home/x example.org/work/x ${{TOP}}/work/\n",
    }, [("scripts/a.sh", 2, "one machine")]),
    (lambda tree: tidy.check_banned_words(tree, ("frobnicate",)), {
        "docs/a.md": "fine\nWe Frobnicate.\n", "docs/b.md": "frobnicated\n",
    }, [("docs/a.md", 2, "banned word")]),
    (tidy.check_todo, {
        "src/a.cpp": "// TODO: later\n// TODO(#12): later\nint TODOS;\n",
        "README.md": "TODO(lead)\n",
    }, [("src/a.cpp", 1, "#issue"), ("README.md", 1, "left to do")]),
    (tidy.check_sizes, {
        "src/a.cpp": "int x;\n" * 601, "src/b.cu": "int x;\n" * 601, "src/c.cu": "int x;\n" * 801,
        "src/d.cpp": f"// {'é' * 97}\n// {'é' * 98}\n", "src/e.cpp": "int x;\n" * 400,
    }, [
        ("src/a.cpp", 600, "more than 600"), ("src/b.cu", 400, "split it?"),
        ("src/c.cu", 800, "more than 800"), ("src/d.cpp", 2, "101 columns"),
    ]),
    (tidy.check_functions, {
        "src/a.cpp": f"namespace a {{\n\nint f() {{\n{LONG_BODY}}}\n}}\n",
        "src/b.cpp": f"class B {{\n public:\n  B(int x) : x_{{x}}, y_{{x}} {{\n{LONG_BODY}}}\n"
                     "};\n",
        "src/c.cpp": f"const Row kTable[] = {{\n{LONG_BODY}}};\nenum class E : int {{\n kA,\n}};\n",
        "src/d.cu": f"__global__ void k() {{\n{LONG_BODY}}}\n"
                    f"__global__ void j() {{\n{LONG_BODY * 3}}}\n",
        "src/e.cpp": "int f() {\n" + "  x();\n" * 68 + "}\nint g() {\n" + "  x();\n" * 69 + "}\n",
    }, [
        ("src/a.cpp", 3, "f: 82 lines"), ("src/b.cpp", 3, "82 lines"),
        ("src/d.cu", 83, "j: 242 lines: more than 200"), ("src/e.cpp", 71, "g: 71 lines"),
    ]),
    (tidy.check_header_heads, {
        "src/a.h": HEAD, "src/b.h": "#pragma once\n", "include/octavo/c.h": "// Head.\nint x;\n",
        "src/d.cpp": "int x;\n",
    }, [("src/b.h", 1, "no head comment"), ("include/octavo/c.h", 1, "no #pragma once")]),
    (tidy.check_dead_files, {
        "src/a/CMakeLists.txt": "lib(x SRCS x.cpp sub/y.cpp\n  mm_${isa}.cpp) # dead.cpp\n",
        "src/a/x.cpp": '#include "a/x.h"\n', "src/a/sub/y.cpp": "", "src/a/mm_avx2.cpp": "",
        "src/a/dead.cpp": "", "src/a/x.h": "", "src/a/dead.h": "",
        "tests/CMakeLists.txt": "file(GLOB s unit/${FOLDER}/*_test.cpp)\n",
        "tests/unit/a/x_test.cpp": "", "tests/unit/a/x_tets.cpp": "",
    }, [
        ("src/a/dead.cpp", 1, "no CMakeLists.txt"), ("src/a/dead.h", 1, "included by nobody"),
        ("tests/unit/a/x_tets.cpp", 1, "no CMakeLists.txt"),
    ]),
    (tidy.check_docs, {
        "src/cli/args.cpp": '"-n,--max-tokens"', "src/base/log.h": "", "include/octavo/model.h": "",
        "docs/a.md": "`src/base` `src/gone.cpp` src/gone2.cpp `src/<name>/` `src/base/l*.h`\n"
                     "`base/log.h` `base/gone.h` `octavo/model.h` `std/x.h`\n"
                     "`octavo run --max-tokens 3 --max` `cmake --preset x`\n"
                     "[good](../src/cli/args.cpp#L1) [bad](b.md) [web](https://example.org)\n"
                     "```\ntools/gone.py\n$ cmake --build build\n./x --gone\n```\n",
    }, [
        ("docs/a.md", 1, "src/gone.cpp does not exist"), ("docs/a.md", 2, "src/base/gone.h"),
        ("docs/a.md", 3, "the flag --max"), ("docs/a.md", 4, "docs/b.md: not there"),
        ("docs/a.md", 6, "tools/gone.py"), ("docs/a.md", 8, "--gone"),
    ]),
    (tidy.check_environment_docs, {
        "src/base/log.cpp": 'env_string("OCTAVO_LOG");\nenv_string("OCTAVO_NEW");\n',
        "scripts/run.sh": "echo $OCTAVO_HOME\n",
        "docs/env.md": "## OCTAVO_HOME\n## `OCTAVO_LOG`\n## OCTAVO_OLD\n",
    }, [("src/base/log.cpp", 2, "OCTAVO_NEW"), ("docs/env.md", 3, "OCTAVO_OLD")]),
]

# What the function finder must see: (code, [(name, first line, last line)]).
FUNCTION_CASES = [
    ("int f() {\n}\n", [("f", 1, 2)]),
    ("struct A {\n  int g() const {\n    return 1;\n  }\n};\n", [("g", 2, 4)]),
    ("template <class T>\nbool operator==(T a = {}, T b = 1) {\n}\n", [("operator==", 1, 3)]),
    ('extern "C" {\nvoid f(int x) {\n  auto g = [](int y) {\n  };\n}\n}\n', [("f", 2, 5)]),
    ("auto f(int x)\n    -> A<B> {\n  return {x};\n}\nint t[] = {\n  f(1)};\n", [("f", 1, 4)]),
    ("struct alignas(64) A {\n  std::atomic<int> a{0};\n};\nusing B = A;\n", []),
    ("#define M(x) \\\n  do { \\\n  } while (0)\nint f() {  // {\n  return '{';\n}\n",
     [("f", 4, 6)]),
    ('const char* s = R"(int f() {)";\nint g() {\n  return 1\'000;\n}\n', [("g", 2, 4)]),
]


def run():
    passed = failed = 0

    def judge(name, expected, got):
        nonlocal passed, failed
        if expected == got:
            passed += 1
        else:
            failed += 1
            print(f"tidy self-test: {name}\n  expected {expected}\n  got      {got}")

    for rule, texts, expected in CASES:
        name = getattr(rule, "__name__", "?")
        got = sorted({(f.path, f.line, f.message) for f in rule(Tree(texts))})
        matched = [(path, line, next((part for p, n, part in expected
                                      if (p, n) == (path, line) and part in message), message))
                   for path, line, message in got]
        judge(name, sorted(expected), matched)
    for code, expected in FUNCTION_CASES:
        got = [(name, first, last) for name, first, last, _ in functions(Source(code))]
        judge(f"functions of {code!r}", expected, got)
    tried = {rule for rule, _, expected in CASES if expected}
    untried = [rule.__name__ for rule in tidy.RULES
               if rule not in tried and rule is not tidy.check_banned_words]
    judge("every rule has a bad tree", [], untried)
    print(f"tidy self-test: {passed} cases hold, {failed} do not")
    return 1 if failed else 0
