#!/usr/bin/env python3
"""Writes src/ops/iq_grids.inl, the grids of GGUF's IQ types, from the constants that the Python
package `gguf` publishes (pip install gguf; MIT licence, from llama.cpp)."""

import pathlib

from gguf import quants

TARGET = pathlib.Path(__file__).parent.parent / "src/ops/iq_grids.inl"
GRIDS = [
    ("kIQ3SGrid", quants.IQ3_S),
    ("kIQ3XxsGrid", quants.IQ3_XXS),
    ("kIQ2SGrid", quants.IQ2_S),
    ("kIQ2XsGrid", quants.IQ2_XS),
    ("kIQ2XxsGrid", quants.IQ2_XXS),
    ("kIQ1Grid", quants.IQ1_S),
]
HEAD = """\
// The grids of the IQ types: constants of the format that were found by search, not by a rule. An
// entry has eight values of two bits or four of three bits, the first lowest; which number a value
// stands for depends on the type. Written by tools/make_iq_grids.py with the constants that the
// Python package `gguf` publishes.
#include <stdint.h>

namespace octavo::ops {
namespace {

// clang-format off
"""
TAIL = """// clang-format on

}  // namespace
}  // namespace octavo::ops
"""


def entries(quant):
    quant.init_grid()
    bits = 16 // quant.grid_shape[1] if quant.grid_shape[1] == 8 else 3
    index_of = {level: i for i, level in enumerate(quant.grid_map)}
    for values in quant.grid.reshape(quant.grid_shape):
        yield sum(index_of[int(value)] << bits * i for i, value in enumerate(values))


def table(name, numbers):
    words = [str(n) for n in numbers]
    lines, line = [], " "
    for word in words:
        if len(line) + len(word) + 2 > 100:
            lines.append(line)
            line = " "
        line += f" {word},"
    return f"constexpr uint16_t {name}[{len(words)}] = {{\n" + "\n".join(lines + [line]) + "\n};\n"


if __name__ == "__main__":
    tables = [table(name, list(entries(quant))) for name, quant in GRIDS]
    TARGET.write_text(HEAD + "\n".join(tables) + TAIL)
