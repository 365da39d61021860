"""octavo's attention kernels for PyTorch tensors, called as flash_attn.flash_attn_varlen_func is.

The library (liboctavo_flash_attn.so) is found in OCTAVO_FLASH_ATTN_LIBRARY, beside the installed
package, or by the dynamic loader. It has a C interface (include/octavo/flash_attn.h), so that this
file serves every version of Python and PyTorch without being compiled.
"""

import ctypes
import functools
import os
from pathlib import Path

_LIBRARY = "liboctavo_flash_attn.so"


class _Args(ctypes.Structure):
    """octavo_flash_attn_args, field by field."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("out", ctypes.c_void_p), ("lse", ctypes.c_void_p), ("q", ctypes.c_void_p),
        ("k", ctypes.c_void_p), ("v", ctypes.c_void_p), ("kv_dtype", ctypes.c_int),
        ("k_scale", ctypes.c_void_p), ("v_scale", ctypes.c_void_p),
        ("batch_size", ctypes.c_int32), ("num_heads", ctypes.c_int32),
        ("num_kv_heads", ctypes.c_int32), ("head_dim", ctypes.c_int32),
        ("total_q", ctypes.c_int32), ("max_seqlen_q", ctypes.c_int32),
        ("cu_seqlens_q", ctypes.c_void_p),
        ("cu_seqlens_k", ctypes.c_void_p), ("total_k", ctypes.c_int64),
        ("block_table", ctypes.c_void_p), ("block_table_stride", ctypes.c_int64),
        ("seqused_k", ctypes.c_void_p), ("num_blocks", ctypes.c_int64),
        ("block_size", ctypes.c_int32),
        ("softmax_scale", ctypes.c_float), ("softcap", ctypes.c_float),
        ("causal", ctypes.c_int32), ("window_left", ctypes.c_int32), ("chunk", ctypes.c_int32),
        ("sinks", ctypes.c_void_p),
    ]


@functools.cache
def _library():
    beside = Path(__file__).resolve().parents[3] / _LIBRARY
    name = os.environ.get("OCTAVO_FLASH_ATTN_LIBRARY") or (beside if beside.exists() else _LIBRARY)
    library = ctypes.CDLL(str(name))
    library.octavo_flash_attn_error.restype = ctypes.c_char_p
    library.octavo_flash_attn_varlen.argtypes = [
        ctypes.POINTER(_Args), ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    return library


def _check(status):
    if status != 0:
        error = {1: ValueError, 2: NotImplementedError}.get(status, RuntimeError)
        raise error(_library().octavo_flash_attn_error().decode())


def _pointer(name, tensor, like, dtypes):
    if tensor is None:
        return None
    if not tensor.is_cuda or tensor.device != like.device:
        raise ValueError(f"{name} is on {tensor.device}, q on {like.device}")
    if tensor.dtype not in dtypes:
        raise ValueError(f"{name} is {tensor.dtype}, not {' or '.join(map(str, dtypes))}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} is not contiguous")
    return tensor.data_ptr()


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k=None, max_seqlen_q=None,
                           max_seqlen_k=None, softmax_scale=None, causal=False,
                           window_size=(-1, -1), softcap=0.0, block_table=None, seqused_k=None,
                           k_scale=None, v_scale=None, sinks=None, out=None,
                           return_softmax_lse=False):
    """Attention of a ragged batch; returns out, or (out, lse) with return_softmax_lse.

    q: [total_q, num_heads, head_dim] bfloat16. k, v: [total_k, num_kv_heads, head_dim] with
    cu_seqlens_k, or pages [num_blocks, num_kv_heads, block_size, head_dim] with block_table
    [batch_size, pages] and seqused_k [batch_size]; note that the heads come before the slots.
    lse: [num_heads, total_q] float32. max_seqlen_k is not needed and may be left out.
    """
    import torch

    if window_size[1] not in (-1, 0) or (causal and window_size[1] > 0):
        raise NotImplementedError("window_size: keys after the query's own")
    int32, float32, bf16 = (torch.int32,), (torch.float32,), (torch.bfloat16,)
    kv_dtypes = (torch.bfloat16, torch.float8_e4m3fn)
    if out is None:
        out = torch.empty_like(q)
    total_q, num_heads, head_dim = q.shape
    lse = None
    if return_softmax_lse:
        lse = torch.empty((num_heads, total_q), dtype=torch.float32, device=q.device)
    args = _Args(
        struct_size=ctypes.sizeof(_Args), out=_pointer("out", out, q, bf16),
        lse=_pointer("lse", lse, q, float32), q=_pointer("q", q, q, bf16),
        k=_pointer("k", k, q, kv_dtypes), v=_pointer("v", v, q, (k.dtype,)),
        kv_dtype=1 if k.dtype == torch.float8_e4m3fn else 0,
        k_scale=_pointer("k_scale", k_scale, q, float32),
        v_scale=_pointer("v_scale", v_scale, q, float32),
        batch_size=cu_seqlens_q.numel() - 1, num_heads=num_heads, head_dim=head_dim,
        total_q=total_q, max_seqlen_q=total_q if max_seqlen_q is None else max_seqlen_q,
        cu_seqlens_q=_pointer("cu_seqlens_q", cu_seqlens_q, q, int32),
        softmax_scale=0.0 if softmax_scale is None else softmax_scale, softcap=softcap,
        causal=int(causal or window_size[1] == 0), window_left=window_size[0],
        sinks=_pointer("sinks", sinks, q, float32))
    if block_table is None:
        args.num_kv_heads, args.total_k = k.shape[1], k.shape[0]
        args.cu_seqlens_k = _pointer("cu_seqlens_k", cu_seqlens_k, q, int32)
    else:
        args.num_blocks, args.num_kv_heads, args.block_size = k.shape[:3]
        args.block_table = _pointer("block_table", block_table, q, int32)
        args.block_table_stride = block_table.shape[1]
        args.seqused_k = _pointer("seqused_k", seqused_k, q, int32)
    with torch.cuda.device(q.device):
        needed = ctypes.c_size_t()
        _check(_library().octavo_flash_attn_workspace_bytes(
            ctypes.byref(args), ctypes.byref(needed)))
        workspace = torch.empty(needed.value, dtype=torch.uint8, device=q.device)
        _check(_library().octavo_flash_attn_varlen(
            ctypes.byref(args), workspace.data_ptr(), needed.value,
            torch.cuda.current_stream().cuda_stream))
    return (out, lse) if return_softmax_lse else out
