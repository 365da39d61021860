#!/usr/bin/env python3
"""Refuses GPU code that compiles but is slow: what ptxas says only in passing, and what only the
machine code shows. The compiler stops for neither.

    tools/check_ptxas.py --log BUILD_LOG OBJECT...   objects: .o of .cu files, or a binary
    tools/check_ptxas.py --self-test

In the log: notes C75xx (wgmma serialised, setmaxnreg ignored) and spilled registers. In the code of
hot kernels: loads and stores of local memory, and the lack of an instruction that the kernel is
built around. Needs cuobjdump of the CUDA toolkit.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# A hot kernel, by a part of its (mangled) name, and what its code must hold.
HOT_KERNELS = {
    r"attention_decode_kernel.*HopperDecode": ("HMMA", "UBLKCP"),
    r"attention_decode_kernel.*PortableDecode": ("HMMA", "LDGSTS"),
    r"(?<!portable_)prefill_kernel": ("HGMMA",),
    r"portable_prefill_kernel": ("HMMA", "LDGSTS", "LDSM"),
    r"wgmma_probe_kernel": ("HGMMA",),
    r"few_tokens_streamed_kernel": ("HMMA", "UBLKCP"),
}

LOG_PATTERNS = (
    (re.compile(r"\bC75\d\d\b"), "the compiler gave up something that makes wgmma fast"),
    (re.compile(r"Potential Performance Loss"), "the compiler gave up something"),
    (re.compile(r"\b[1-9]\d* bytes spill (?:stores|loads)"), "registers are spilled"),
    (re.compile(r"Registers are spilled"), "registers are spilled"),
)

LOCAL_MEMORY = re.compile(r"\b(?:LDL|STL)\b")


def check_log(text):
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, message in LOG_PATTERNS:
            if pattern.search(line):
                yield f"log line {number}: {message}: {line.strip()[:160]}"
                break


def functions_of(sass):
    """(name, code) of each function in what `cuobjdump -sass` prints."""
    parts = re.split(r"^\s*Function : (\S+)\s*$", sass, flags=re.MULTILINE)
    return zip(parts[1::2], parts[2::2])


def check_sass(sass, where=""):
    for name, code in functions_of(sass):
        for pattern, needed in HOT_KERNELS.items():
            if not re.search(pattern, name):
                continue
            count = len(LOCAL_MEMORY.findall(code))
            if count:
                yield f"{where}{name}: {count} accesses of local memory"
            for instruction in needed:
                if not re.search(rf"\b{instruction}\b", code):
                    yield f"{where}{name}: no {instruction}"


def find_tool(name):
    path = shutil.which(name) or f"/usr/local/cuda/bin/{name}"
    return path if Path(path).exists() else None


def need_tool(name):
    path = find_tool(name)
    if path is None:
        sys.exit(f"check_ptxas: {name} of the CUDA toolkit is not on PATH")
    return path


def disassemble(path):
    return subprocess.run([need_tool("cuobjdump"), "-sass", str(path)], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


# --- the gate proves itself --------------------------------------------------------------------

GOOD_SASS = """
\t\tFunction : _Z23attention_decode_kernelI12DecodeConfigI12HopperDecodeE
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0020*/                   UBLKCP.S.G [UR4], [UR6], UR8 ;
\t\tFunction : _Z11cold_kernelv
        /*0000*/                   STL [R1], R0 ;
"""

BAD = (  # (log, sass, part of the finding)
    ("ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized",
     "", "wgmma"),
    ("ptxas info    : 0 bytes stack frame, 16 bytes spill stores, 0 bytes spill loads", "",
     "spill"),
    ("ptxas warning : Registers are spilled to local memory in function 'f'", "", "spill"),
    ("", GOOD_SASS.replace("LDC R1, c[0x0][0x28]", "LDL.64 R2, [R1]"), "local memory"),
    ("", GOOD_SASS.replace("HMMA", "FFMA"), "no HMMA"),
    ("", GOOD_SASS.replace("UBLKCP", "LDG"), "no UBLKCP"),
    ("", "\t\tFunction : _Z14prefill_kernelv\n  HMMA R4, R8, R12, R4 ;\n", "no HGMMA"),
)

BAD_KERNEL = """
// More values than registers, all needed at the end, and an index known only then.
extern "C" __global__ void attention_decode_kernel_PortableDecode(float* x, int n) {
  float values[64];
  for (int i = 0; i < 64; ++i) values[i] = x[i * n];
  for (int i = 0; i < n; ++i) values[static_cast<int>(x[i]) & 63] += values[i & 63];
  for (int i = 0; i < 64; ++i) x[i] = values[i];
}
"""


def compile_bad_kernel(nvcc):
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "bad.cu"), Path(folder, "bad.cubin")
        source.write_text(BAD_KERNEL)
        subprocess.run([nvcc, "-arch=sm_80", "-cubin", "-o", target, source], check=True)
        return disassemble(target)


def self_test():
    failures = []
    clean_log = "ptxas info    : 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    for finding in (*check_log(clean_log), *check_sass(GOOD_SASS)):
        failures.append(f"good input was refused: {finding}")
    for log, sass, part in BAD:
        findings = [*check_log(log), *check_sass(sass)]
        if not any(part in finding for finding in findings):
            failures.append(f"bad input passed: {(log or sass).strip()[:100]}")
    nvcc = find_tool("nvcc")
    if nvcc and find_tool("cuobjdump"):
        findings = list(check_sass(compile_bad_kernel(nvcc)))
        if not any("local memory" in finding for finding in findings):
            failures.append("a kernel with values in local memory passed")
    else:
        print("check_ptxas: no nvcc here, the deliberately bad kernel was not compiled")
    return failures


def main():
    parser = argparse.ArgumentParser(description="Refuses GPU code that compiles but is slow.")
    parser.add_argument("--log", help="what the build printed")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("objects", nargs="*")
    options = parser.parse_args()
    if options.self_test:
        findings = self_test()
    else:
        findings = list(check_log(Path(options.log).read_text())) if options.log else []
        hot = 0
        for path in options.objects:
            sass = disassemble(path)
            hot += sum(any(re.search(p, name) for p in HOT_KERNELS)
                       for name, _ in functions_of(sass))
            findings += check_sass(sass, f"{path}: ")
        print(f"check_ptxas: {hot} hot kernels in {len(options.objects)} objects")
    for finding in findings:
        print(finding, file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
