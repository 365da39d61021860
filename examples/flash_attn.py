"""Compares octavo's attention with PyTorch's on one GPU: three prompts of different lengths, then
the same keys in pages. Needs PyTorch and a GPU from sm_80 on.

    PYTHONPATH=<prefix>/lib/octavo/python python3 examples/flash_attn.py
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from octavo.flash_attn import flash_attn_varlen_func

HEADS, KV_HEADS, HEAD_DIM, BLOCK = 32, 8, 128, 16


def by_pytorch(q, k, v, lengths):
    """[tokens, heads, head_dim], sequence by sequence, in float32."""
    parts = []
    for a, b, c in zip(q.split(lengths), k.split(lengths), v.split(lengths)):
        a, b, c = (x.float().transpose(0, 1) for x in (a, b, c))
        b, c = (x.repeat_interleave(HEADS // KV_HEADS, 0) for x in (b, c))
        parts.append(scaled_dot_product_attention(a, b, c, is_causal=True).transpose(0, 1))
    return torch.cat(parts)


def in_pages(x, lengths):
    """Pages in random order, and what each sequence's are; unused slots are NaN."""
    pages = [-(-n // BLOCK) for n in lengths]
    pool = torch.full((sum(pages), KV_HEADS, BLOCK, HEAD_DIM), float("nan"), device=x.device)
    table = torch.zeros((len(lengths), max(pages)), dtype=torch.int32, device=x.device)
    free = torch.Generator().manual_seed(1)
    order = torch.randperm(sum(pages), generator=free).tolist()
    for i, part in enumerate(x.split(lengths)):
        for j, slots in enumerate(part.split(BLOCK)):
            table[i, j] = order.pop()
            pool[table[i, j], :, : len(slots)] = slots.transpose(0, 1).float()
    return pool.to(x.dtype), table


def main():
    torch.manual_seed(0)
    lengths = [1000, 17, 4096]
    q = torch.randn(sum(lengths), HEADS, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    k, v = torch.randn(2, sum(lengths), KV_HEADS, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    cu_seqlens = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()
    expected = by_pytorch(q, k, v, lengths)

    out = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, max(lengths), causal=True)
    print(f"contiguous: largest difference {(out - expected).abs().max().item():.4f}")

    pages_k, table = in_pages(k, lengths)
    pages_v, _ = in_pages(v, lengths)
    used = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    paged = flash_attn_varlen_func(q, pages_k, pages_v, cu_seqlens, max_seqlen_q=max(lengths),
                                   causal=True, block_table=table, seqused_k=used)
    print(f"in pages:   largest difference {(paged - expected).abs().max().item():.4f}")

    ends = cu_seqlens[1:].long() - 1
    one_each = torch.arange(len(lengths) + 1, dtype=torch.int32, device="cuda")
    last = flash_attn_varlen_func(q[ends].contiguous(), pages_k, pages_v, one_each,
                                  max_seqlen_q=1, causal=True, block_table=table, seqused_k=used)
    print(f"last rows:  largest difference {(last - expected[ends]).abs().max().item():.4f}")
    if max((x - y).abs().max().item() for x, y in
           [(out, expected), (paged, expected), (last, expected[ends])]) > 0.02:
        raise SystemExit("octavo and PyTorch disagree")


if __name__ == "__main__":
    main()
