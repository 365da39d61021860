#!/usr/bin/env python3
"""Times octavo's attention beside its peers on one GPU, in turn on the same tensors.

    PYTHONPATH=build/cuda/python bench/kernels/peers.py [--rounds 5] [--only TEXT] [--trace FILE]

Peers: PyTorch's scaled_dot_product_attention with cuDNN and with FlashAttention-2, which take
equal lengths only and get keys and values with the heads repeated beforehand; FlashAttention-3
where vLLM's build or flash_attn_interface can be imported. Every call is a replayed CUDA graph and
includes making the list of work; of decode there is also a form, "planned once", in which the calls
of a graph share it as the layers of a model do. A round calls each once after another so often that
it takes about 20 ms; a figure is the median of the rounds' medians: of prefill TFLOPS of the pairs
of query and key that are seen, of decode TB/s of the keys and values, by 20 calls over buffers of
more than 120 MB. --trace: a file of requests (CSV with a column ContextTokens, or JSON lines with
input_length), whose prompts make a batch of 16,384 tokens.
"""

import argparse
import csv
import json
import statistics
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from octavo.flash_attn import SchedulerMetadata
from octavo.flash_attn import flash_attn_varlen_func as octavo_attention

TOKENS = 16384
ROUND_MS = 20
FLUSH_BYTES = 256 << 20  # more than the L2 cache holds
DECODE_CALLS = 20
DECODE_BYTES = 120 << 20  # of the buffers that decode calls take in turn


@dataclass
class Work:
    name: str
    q_lens: list
    kv_lens: list
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    causal: bool = True
    block: int = 0  # tokens of a page; 0: contiguous
    fp8: bool = False
    planned_once: bool = False

    @property
    def decodes(self):
        return max(self.q_lens) == 1

    def kv_bytes(self):
        return 2 * sum(self.kv_lens) * self.kv_heads * self.head_dim * (1 if self.fp8 else 2)

    def rate(self, us):
        return self.kv_bytes() / us / 1e6 if self.decodes else self.flops() / us / 1e6

    def flops(self):
        pairs = sum(q * (k - q) + q * (q + 1) // 2 if self.causal else q * k
                    for q, k in zip(self.q_lens, self.kv_lens))
        return 4 * pairs * self.heads * self.head_dim


def flash_attention_3():
    """(its function, whether it is vLLM's), or None."""
    try:
        from vllm.vllm_flash_attn import flash_attn_varlen_func
        return flash_attn_varlen_func, True
    except ImportError:
        pass
    try:
        from flash_attn_interface import flash_attn_varlen_func
        return flash_attn_varlen_func, False
    except ImportError:
        return None


def cumulative(lengths):
    sums = torch.tensor([0, *lengths], device="cuda").cumsum(0)
    return sums.to(torch.int32)


def random(*shape):
    return torch.randn(*shape, dtype=torch.bfloat16, device="cuda")


def sdpa_calls(work, q, k, v):
    """PyTorch's kernels, for equal lengths without a cached prefix."""
    if work.block or len(set(work.q_lens)) > 1 or work.q_lens != work.kv_lens:
        return {}
    batch = len(work.q_lens)
    q, k, v = (x.view(batch, -1, x.shape[1], work.head_dim).transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(work.heads // work.kv_heads, 1) for x in (k, v))

    def call(backend):
        def attend():
            with sdpa_kernel(backend):
                F.scaled_dot_product_attention(q, k, v, is_causal=work.causal)
        return attend

    return {"cuDNN": call(SDPBackend.CUDNN_ATTENTION), "FA2": call(SDPBackend.FLASH_ATTENTION)}


def contiguous_calls(work, fa3):
    q = random(sum(work.q_lens), work.heads, work.head_dim)
    k, v = (random(sum(work.kv_lens), work.kv_heads, work.head_dim) for _ in "kv")
    lengths = dict(cu_seqlens_q=cumulative(work.q_lens), cu_seqlens_k=cumulative(work.kv_lens),
                   max_seqlen_q=max(work.q_lens), max_seqlen_k=max(work.kv_lens),
                   causal=work.causal)
    calls = {"octavo": lambda: octavo_attention(q, k, v, **lengths)}
    if fa3:
        function, is_vllm = fa3
        version = {"fa_version": 3} if is_vllm else {}
        calls["FA3"] = lambda: function(q, k, v, **lengths, **version)
    return calls | sdpa_calls(work, q, k, v)


def pages_of(work):
    """What all calls of a step share."""
    pages = -(-max(work.kv_lens) // work.block)
    table = torch.randperm(pages * len(work.kv_lens), device="cuda").to(torch.int32)
    return dict(cu_seqlens_q=cumulative(work.q_lens), max_seqlen_q=max(work.q_lens),
                max_seqlen_k=max(work.kv_lens), causal=work.causal,
                block_table=table.view(-1, pages),
                seqused_k=torch.tensor(work.kv_lens, dtype=torch.int32, device="cuda"))


def paged_calls(work, fa3, common=None):
    common = common or pages_of(work)
    q = random(sum(work.q_lens), work.heads, work.head_dim)
    count = common["block_table"].numel()
    k, v = (random(count, work.kv_heads, work.block, work.head_dim) for _ in "kv")
    if work.fp8:
        k, v = (x.to(torch.float8_e4m3fn) for x in (k, v))
    calls = {"octavo": lambda **plan: octavo_attention(q, k, v, **common, **plan)}
    if fa3 and fa3[1] and (work.decodes or not work.fp8):
        theirs_k, theirs_v = (x.transpose(1, 2).contiguous() for x in (k, v))
        theirs_q, scales = q, {}
        if work.fp8:  # its FP8 wants queries of that type too
            theirs_q = q.to(torch.float8_e4m3fn)
            ones = torch.ones(len(work.q_lens), work.kv_heads, device="cuda")
            scales = dict(q_descale=ones, k_descale=ones, v_descale=ones)
        calls["FA3"] = lambda **plan: fa3[0](theirs_q, theirs_k, theirs_v, **common, **scales,
                                             **plan, fa_version=3)
    return calls


def make_plan(work, name, common):
    if not work.planned_once:
        return {}
    if name == "octavo":
        return {"scheduler_metadata": SchedulerMetadata()}
    from vllm.vllm_flash_attn.flash_attn_interface import get_scheduler_metadata
    return {"scheduler_metadata": get_scheduler_metadata(
        len(work.kv_lens), max(work.q_lens), max(work.kv_lens), work.heads, work.kv_heads,
        work.head_dim, common["seqused_k"], cu_seqlens_q=common["cu_seqlens_q"],
        qkv_dtype=torch.float8_e4m3fn if work.fp8 else torch.bfloat16, page_size=work.block,
        causal=work.causal)}


def decode_calls(work, fa3):
    """Each peer's DECODE_CALLS calls, over sets of buffers in turn."""
    common = pages_of(work)
    sets = [paged_calls(work, fa3, common) for _ in range(DECODE_BYTES // work.kv_bytes() + 2)]

    def call(name):
        def attend():
            plan = make_plan(work, name, common)
            for i in range(DECODE_CALLS):
                sets[i % len(sets)][name](**plan)
        return attend

    return {name: call(name) for name in sets[0]}


def graphed(call):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def time_us(call, flush, count):
    times = []
    for _ in range(count):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3)
    return statistics.median(times)


def measure(work, fa3, rounds, flush):
    make = decode_calls if work.decodes else paged_calls if work.block else contiguous_calls
    calls = make(work, fa3)
    counts = {}
    for name, call in list(calls.items()):
        try:
            calls[name] = call = graphed(call)
            call()
            counts[name] = max(3, min(50, int(ROUND_MS * 1e3 / time_us(call, flush, 3))))
        except (RuntimeError, NotImplementedError) as error:
            print(f"  {name}: {str(error).splitlines()[0]}")
            del calls[name]
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(time_us(call, flush, counts[name]))
    each = DECODE_CALLS if work.decodes else 1
    return {name: statistics.median(values) / each for name, values in times.items()}


def trace_lengths(path):
    with open(path, encoding="utf-8") as file:
        if path.endswith(".csv"):
            lengths = [int(row["ContextTokens"]) for row in csv.DictReader(file)]
        else:
            lengths = [json.loads(line)["input_length"] for line in file]
    batch = []
    for length in lengths:
        length = min(length, TOKENS - sum(batch))
        if length == 0:
            break
        batch.append(length)
    return batch


def all_work(trace):
    for heads, kv_heads, head_dim in ((32, 8, 128), (32, 32, 64), (8, 8, 256)):
        for causal in (True, False):
            for length in (512, 1024, 2048, 4096, 8192, 16384):
                lengths = [length] * (TOKENS // length)
                mask = "causal" if causal else "full"
                yield Work(f"hd{head_dim} {heads}/{kv_heads} {mask} {length}", lengths, lengths,
                           heads, kv_heads, head_dim, causal)
    if trace:
        lengths = trace_lengths(trace)
        yield Work(f"varlen, {len(lengths)} prompts of the trace", lengths, lengths)
    for block, fp8 in ((0, False), (16, False), (16, True), (256, False)):
        cache = f"page {block}" if block else "contiguous"
        yield Work(f"4 x 512 on 8k, {cache}{', fp8' if fp8 else ''}", [512] * 4,
                   [8192 + 512] * 4, block=block, fp8=fp8)
    for fp8, planned_once in ((False, False), (True, False), (False, True), (True, True)):
        for batch, length in ((8, 16384), (32, 8192), (128, 4096), (1, 2048), (1, 16384),
                              (8, 2048), (1, 256), (8, 256), (32, 256)):
            name = f"decode {batch} x {length}{', fp8' if fp8 else ''}"
            yield Work(f"{name}{', planned once' if planned_once else ''}", [1] * batch,
                       [length] * batch, block=16, fp8=fp8, planned_once=planned_once)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--trace", help="a file of requests")
    options = parser.parse_args()
    fa3 = flash_attention_3()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
          f"cuDNN {torch.backends.cudnn.version()}, "
          f"FlashAttention-3: {'yes' if fa3 else 'not installed'}")
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    print("| work | octavo µs | octavo | FA3 | cuDNN | FA2 | of the best peer |")
    print("|---|---|---|---|---|---|---|")
    for work in all_work(options.trace):
        if options.only not in work.name:
            continue
        times = measure(work, fa3, options.rounds, flush)
        rates = {name: work.rate(us) for name, us in times.items()}
        best = max((rate for name, rate in rates.items() if name != "octavo"), default=0)
        digits = 2 if work.decodes else 0
        cells = [f"{rates[n]:.{digits}f}" if n in rates else ""
                 for n in ("octavo", "FA3", "cuDNN", "FA2")]
        ratio = f"{rates['octavo'] / best:.2f}" if best and "octavo" in rates else ""
        print(f"| {work.name} | {times.get('octavo', float('nan')):.1f} | {' | '.join(cells)} "
              f"| {ratio} |", flush=True)


if __name__ == "__main__":
    main()
