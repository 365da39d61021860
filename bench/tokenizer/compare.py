#!/usr/bin/env python3
"""Times octavo's tokenizer and Hugging Face's `tokenizers` in turn, on one core.

    pip install tokenizers==0.23.3
    bench/tokenizer/compare.py TOKENIZER_JSON... [--rounds N]

The texts are this repository's own files (code and English) and random text in 20 scripts. Each
round runs both programs once; each loads the file and encodes all texts five times, of which the
fastest counts. `tokenizers` runs without offsets (encode_batch_fast), without threads, and its
cache stays filled from one pass to the next. Times are the processor's. Printed are medians,
and of the ratios the best too.
"""

import argparse
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def texts():
    sys.path.insert(0, str(ROOT / "tools"))
    from tokenizer_texts import random_text

    kinds = (".cpp", ".h", ".md", ".py", ".txt")
    names = [p for p in sorted(ROOT.glob("**/*"))
             if p.suffix in kinds and not p.is_relative_to(ROOT / "build")]
    files = [p.read_text(encoding="utf-8", errors="replace") for p in names]
    scripts = ["".join(random_text(i * 100 + k) for k in range(100)) for i in range(150)]
    return {"files": files, "scripts": scripts}


def time_tokenizers(path, rows):
    """In a process of its own, so that nothing is warm but what a round warms."""
    from tokenizers import Tokenizer

    begin = time.process_time()
    tokenizer = Tokenizer.from_file(path)
    load_s = time.process_time() - begin
    best_s = 1e9
    for _ in range(5):
        begin = time.process_time()
        tokenizer.encode_batch_fast(rows, add_special_tokens=False)
        best_s = min(best_s, time.process_time() - begin)
    print(f"{load_s:.6f} {best_s:.6f}")


def unpack(path):
    content, rows, pos = Path(path).read_bytes(), [], 0
    while pos < len(content):
        size, = struct.unpack_from("<I", content, pos)
        rows.append(content[pos + 4:pos + 4 + size].decode())
        pos += 4 + size
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--program", default=str(ROOT / "build/cpu/tokenizer_bench"))
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return time_tokenizers(options.files[0], unpack(options.peer))
    one_core = dict(os.environ, TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as folder:
        for path in options.files:
            for name, rows in texts().items():
                data = Path(folder, name)
                encoded = [row.encode() for row in rows]
                data.write_bytes(b"".join(struct.pack("<I", len(row)) + row for row in encoded))
                commands = [[options.program, path, str(data), "time"],
                            [sys.executable, __file__, path, "--peer", str(data)]]

                def run(command):
                    out = subprocess.run(command, env=one_core, check=True, text=True,
                                         stdout=subprocess.PIPE).stdout
                    return list(map(float, out.split()))

                runs = [[run(command) for command in commands] for _ in range(options.rounds)]
                megabytes = sum(map(len, encoded)) / 1e6
                load = [statistics.median(r[i][0] for r in runs) for i in range(2)]
                rate = [megabytes / statistics.median(r[i][1] for r in runs) for i in range(2)]
                ratios = [theirs[1] / ours[1] for ours, theirs in runs]
                print(f"{Path(path).name}, {name} ({megabytes:.1f} MB): "
                      f"octavo loads in {load[0]:.3f} s and encodes {rate[0]:.1f} MB/s; tokenizers "
                      f"{load[1]:.3f} s, {rate[1]:.1f} MB/s; ratio best {max(ratios):.2f}, "
                      f"median {statistics.median(ratios):.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
