// FlashAttention on NVIDIA GPUs from sm_80 on as a C library (liboctavo_flash_attn), in the manner
// of flash_attn_varlen_func: one call serves a ragged batch of prompts, chunks on a cached prefix
// and single rows, over contiguous or paged keys and values. A call puts work on a stream and does
// not wait; lengths are read on the device, so that a captured graph may be replayed with others.
//
// What a row gives depends on its own sequence alone, bit for bit. A row that sees no key gives 0
// and an lse of -infinity. Slots of a cache beyond a sequence's length may hold anything, NaN
// included. The header is C and needs no CUDA; pointers are device memory unless said.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum octavo_flash_attn_status {
  OCTAVO_FLASH_ATTN_OK = 0,
  OCTAVO_FLASH_ATTN_INVALID = 1,      // the arguments contradict themselves
  OCTAVO_FLASH_ATTN_UNSUPPORTED = 2,  // a shape, type or GPU that has no kernel
  OCTAVO_FLASH_ATTN_FAILED = 3        // CUDA reported an error
} octavo_flash_attn_status;

typedef enum octavo_flash_attn_dtype {
  OCTAVO_FLASH_ATTN_BF16 = 0,
  OCTAVO_FLASH_ATTN_F8E4M3 = 1  // of k and v; arithmetic is then in half precision
} octavo_flash_attn_dtype;

// Set to zero, then struct_size and what applies. q and out are bfloat16; tensors are contiguous.
typedef struct octavo_flash_attn_args {
  size_t struct_size;  // sizeof(octavo_flash_attn_args)

  void* out;      // [total_q, num_heads, head_dim]
  float* lse;     // [num_heads, total_q], natural logarithm; or null
  const void* q;  // [total_q, num_heads, head_dim]
  // Contiguous: [total_k, num_kv_heads, head_dim].
  // Paged: [num_blocks, num_kv_heads, block_size, head_dim].
  const void* k;
  const void* v;
  octavo_flash_attn_dtype kv_dtype;
  const float* k_scale;  // [num_kv_heads], what stored values are multiplied by; E4M3 only, or null
  const float* v_scale;

  int32_t batch_size;
  int32_t num_heads;  // a multiple of num_kv_heads
  int32_t num_kv_heads;
  int32_t head_dim;             // 64, 128 or 256
  int32_t total_q;              // query tokens of all sequences
  int32_t max_seqlen_q;         // at least the longest sequence's query tokens
  const int32_t* cu_seqlens_q;  // [batch_size + 1]

  // Contiguous keys.
  const int32_t* cu_seqlens_k;  // [batch_size + 1]
  int64_t total_k;

  // Paged keys, where block_table is not null.
  const int32_t* block_table;  // [batch_size, block_table_stride]
  int64_t block_table_stride;
  const int32_t* seqused_k;  // [batch_size]: keys of each sequence
  int64_t num_blocks;
  int32_t block_size;  // 16, 32, 64, 128 or 256

  float softmax_scale;  // 0: head_dim^-0.5
  float softcap;        // > 0: scores become softcap * tanh(score / softcap)
  int32_t causal;       // 0 or 1; the last query row sees the last key
  int32_t window_left;  // keys before a row's own position that it sees; -1: all
  int32_t chunk;        // > 0: only keys of the row's own chunk of positions; causal
  const float* sinks;   // [num_heads]: a score without a value in every row; or null

  // 1: the workspace is as octavo_flash_attn_plan or a call of octavo_flash_attn_varlen left it,
  // whose arguments differed in none but out, lse, q, k, v, k_scale, v_scale, softmax_scale,
  // softcap and sinks (the layers of a model). Its list of work is used again.
  int32_t planned;
} octavo_flash_attn_args;

// Bytes of workspace that a call with these counts needs; a workspace for the largest batch serves
// all smaller ones. It belongs to one stream at a time.
octavo_flash_attn_status octavo_flash_attn_workspace_bytes(const octavo_flash_attn_args* args,
                                                           size_t* bytes);

// Makes the list of work that a call needs, for calls with `planned`. `stream`: a cudaStream_t;
// null: the default stream.
octavo_flash_attn_status octavo_flash_attn_plan(const octavo_flash_attn_args* args, void* workspace,
                                                size_t workspace_bytes, void* stream);

octavo_flash_attn_status octavo_flash_attn_varlen(const octavo_flash_attn_args* args,
                                                  void* workspace, size_t workspace_bytes,
                                                  void* stream);

// What the last call of this thread that failed says; valid until the next.
const char* octavo_flash_attn_error(void);

#ifdef __cplusplus
}
#endif
