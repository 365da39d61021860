"""octavo's attention kernels for PyTorch tensors, called as flash_attn.flash_attn_varlen_func is.

It allocates and calls `varlen` of the compiled module octavo._flash_attn, which takes arrays of any
framework with DLPack, reads and checks them; its docstring says more.
"""

try:
    from octavo._flash_attn import varlen
except ImportError as error:
    raise ImportError(
        f"octavo._flash_attn cannot be loaded ({error}). It is built for one Python, in octavo's "
        "source tree: cmake --preset cuda -DBUILD_PYTHON=ON -DPython3_EXECUTABLE=\"$(command -v "
        "python3)\" && cmake --build build/cuda --target octavo_python; then "
        "PYTHONPATH=build/cuda/python") from error

__all__ = ["SchedulerMetadata", "flash_attn_varlen_func", "varlen"]


class SchedulerMetadata:
    """The list of work of calls on one stream that share it, made by the first of them.

    Such calls may differ in q, k, v, out, the scales of k and v, softmax_scale, softcap and sinks
    only: the layers of a model, in one step.
    """

    def __init__(self):
        self.workspace = None


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k=None, max_seqlen_q=None,
                           max_seqlen_k=None, softmax_scale=None, causal=False,
                           window_size=(-1, -1), softcap=0.0, block_table=None, seqused_k=None,
                           k_scale=None, v_scale=None, sinks=None, out=None,
                           return_softmax_lse=False, scheduler_metadata=None):
    """Attention of a ragged batch; returns out, or (out, lse) with return_softmax_lse.

    q: [total_q, num_heads, head_dim] bfloat16. k, v: [total_k, num_kv_heads, head_dim] with
    cu_seqlens_k, or pages [num_blocks, num_kv_heads, block_size, head_dim] with block_table
    [batch_size, pages] and seqused_k [batch_size]; note that the heads come before the slots.
    scheduler_metadata: a SchedulerMetadata() for calls with one list of work.
    lse: [num_heads, total_q] float32. max_seqlen_k is not needed and may be left out. There is no
    backward pass: tensors that require gradients are refused.
    """
    if not getattr(q, "is_cuda", False):
        raise ValueError(f"q is no PyTorch tensor on a GPU, but {getattr(q, 'device', type(q))}")
    import torch
    from torch.utils.dlpack import to_dlpack

    if window_size[1] not in (-1, 0) or (causal and window_size[1] > 0):
        raise NotImplementedError("window_size: keys after the query's own")

    workspace = scheduler_metadata.workspace if scheduler_metadata else None

    def allocate(size):
        nonlocal workspace
        workspace = torch.empty(size, dtype=torch.uint8, device=q.device)
        return exported(workspace)

    def exported(x):  # the call runs on the current stream: none to wait for
        return to_dlpack(x) if isinstance(x, torch.Tensor) and not x.requires_grad else x

    if out is None:
        out = torch.empty_like(q)
    lse = None
    if return_softmax_lse:
        lse = torch.empty(q.shape[1::-1], dtype=torch.float32, device=q.device)
    kv_dtype = "auto"
    if all(getattr(x, "dtype", None) == torch.float8_e4m3fn for x in (k, v)):
        k, v = k.view(torch.uint8), v.view(torch.uint8)  # not every PyTorch exports float8
        kv_dtype = "fp8_e4m3"
    arrays = dict(out=out, lse=lse, q=q, k=k, v=v, cu_seqlens_q=cu_seqlens_q,
                  cu_seqlens_k=cu_seqlens_k, block_table=block_table, seqused_k=seqused_k,
                  k_scale=k_scale, v_scale=v_scale, sinks=sinks, planned=workspace)
    with torch.cuda.device(q.device):
        varlen(**{name: exported(x) for name, x in arrays.items()}, kv_dtype=kv_dtype,
               max_seqlen_q=max_seqlen_q, softmax_scale=softmax_scale or 0.0, softcap=softcap,
               causal=causal or window_size[1] == 0, window_left=window_size[0],
               stream=torch.cuda.current_stream().cuda_stream, allocate=allocate)
    if scheduler_metadata:
        scheduler_metadata.workspace = workspace
    return (out, lse) if return_softmax_lse else out
