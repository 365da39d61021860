// The C library of octavo/flash_attn.h: checks arguments, picks prefill or decode, and turns
// errors into codes. No exception leaves it.
#include "octavo/flash_attn.h"

#include <cmath>
#include <exception>
#include <string>

#include "backends/cuda/attention_decode.h"
#include "backends/cuda/attention_prefill.h"
#include "base/check.h"
#include "base/format.h"

namespace octavo::backends::cuda {
namespace {

// Up to here a sequence's rows cost no more than its keys: the decode kernel reads those once.
constexpr int kMaxDecodeTokens = 8;

bool is_decode(const octavo_flash_attn_args& args) {
  return args.block_table != nullptr && args.max_seqlen_q <= kMaxDecodeTokens;
}

float softmax_scale(const octavo_flash_attn_args& args) {
  if (args.softmax_scale != 0.0f) return args.softmax_scale;
  return 1.0f / std::sqrt(static_cast<float>(args.head_dim));
}

Status check(const octavo_flash_attn_args& args) {
  if (args.struct_size != sizeof(octavo_flash_attn_args))
    return invalid_argument(format("flash_attn: struct_size is {}, this library's is {}",
                                   args.struct_size, sizeof(octavo_flash_attn_args)));
  const struct {
    const char* name;
    int64_t value;
  } counts[] = {{"batch_size", args.batch_size},
                {"total_q", args.total_q},
                {"max_seqlen_q", args.max_seqlen_q},
                {"total_k", args.total_k}};
  for (const auto& count : counts) {
    if (count.value < 0)
      return invalid_argument(format("flash_attn: {} is {}", count.name, count.value));
  }
  if (args.num_heads < 1 || args.num_kv_heads < 1 || args.num_heads % args.num_kv_heads != 0)
    return invalid_argument(format("flash_attn: num_heads {} is not a multiple of num_kv_heads {}",
                                   args.num_heads, args.num_kv_heads));
  if (args.head_dim != 64 && args.head_dim != 128 && args.head_dim != 256)
    return unsupported(format("flash_attn: head_dim {}, not 64, 128 or 256", args.head_dim));
  const bool paged = args.block_table != nullptr;
  const struct {
    const char* name;
    const void* pointer;
    bool needed;
  } pointers[] = {{"out", args.out, true},
                  {"q", args.q, true},
                  {"k", args.k, true},
                  {"v", args.v, true},
                  {"cu_seqlens_q", args.cu_seqlens_q, true},
                  {"cu_seqlens_k", args.cu_seqlens_k, !paged},
                  {"seqused_k", args.seqused_k, paged}};
  for (const auto& pointer : pointers) {
    if (pointer.needed && pointer.pointer == nullptr && args.total_q > 0)
      return invalid_argument(format("flash_attn: {} is null", pointer.name));
  }
  if (args.kv_dtype != OCTAVO_FLASH_ATTN_BF16 && args.kv_dtype != OCTAVO_FLASH_ATTN_F8E4M3)
    return invalid_argument(format("flash_attn: kv_dtype is {}", static_cast<int>(args.kv_dtype)));
  if ((args.window_left >= 0 || args.chunk > 0) && args.causal == 0 && is_decode(args))
    return unsupported("flash_attn: window_left and chunk without causal");
  return {};
}

DecodeArgs decode_args(const octavo_flash_attn_args& from) {
  DecodeArgs args;
  args.out = from.out;
  args.lse = from.lse;
  args.q = from.q;
  args.k = from.k;
  args.v = from.v;
  args.kv_dtype = from.kv_dtype == OCTAVO_FLASH_ATTN_F8E4M3 ? DType::kF8E4M3 : DType::kBF16;
  args.num_tokens = from.total_q;
  args.num_seqs = from.batch_size;
  args.num_heads = from.num_heads;
  args.num_kv_heads = from.num_kv_heads;
  args.head_dim = from.head_dim;
  args.max_q_len = from.max_seqlen_q;
  args.cu_seqlens_q = from.cu_seqlens_q;
  args.seq_lens = from.seqused_k;
  args.block_table = from.block_table;
  args.block_table_stride = from.block_table_stride;
  args.block_size = from.block_size;
  args.scale = softmax_scale(from);
  args.softcap = from.softcap;
  args.window_left = from.window_left;
  args.window_right = from.causal != 0 ? 0 : -1;
  args.chunk = from.chunk;
  args.sinks = from.sinks;
  args.k_scale = from.k_scale;
  args.v_scale = from.v_scale;
  args.scale_stride = 1;
  return args;
}

PrefillArgs prefill_args(const octavo_flash_attn_args& from) {
  PrefillArgs args;
  args.out = from.out;
  args.lse = from.lse;
  args.q = from.q;
  args.k = from.k;
  args.v = from.v;
  args.kv_dtype = from.kv_dtype == OCTAVO_FLASH_ATTN_F8E4M3 ? DType::kF8E4M3 : DType::kBF16;
  args.num_tokens = from.total_q;
  args.num_seqs = from.batch_size;
  args.num_heads = from.num_heads;
  args.num_kv_heads = from.num_kv_heads;
  args.head_dim = from.head_dim;
  args.cu_seqlens_q = from.cu_seqlens_q;
  args.cu_seqlens_k = from.cu_seqlens_k;
  args.num_kv_tokens = from.total_k;
  args.block_table = from.block_table;
  args.block_table_stride = from.block_table_stride;
  args.seq_lens = from.seqused_k;
  args.num_blocks = from.num_blocks;
  args.block_size = from.block_size;
  args.scale = softmax_scale(from);
  args.softcap = from.softcap;
  args.mask = {from.window_left, from.causal != 0 ? 0 : -1, from.chunk};
  args.sinks = from.sinks;
  args.k_scale = from.k_scale;
  args.v_scale = from.v_scale;
  args.scale_stride = 1;
  return args;
}

Result<size_t> workspace_bytes(const octavo_flash_attn_args& args) {
  OCTAVO_TRY(check(args));
  return is_decode(args) ? decode_workspace_bytes(decode_args(args))
                         : prefill_workspace_bytes(prefill_args(args));
}

Status check_workspace(const octavo_flash_attn_args& args, const void* workspace, size_t bytes) {
  const size_t needed = OCTAVO_TRY(workspace_bytes(args));
  const bool has_work = args.total_q > 0 && args.batch_size > 0;
  if (has_work && (bytes < needed || workspace == nullptr))
    return invalid_argument(
        format("flash_attn: a workspace of {} bytes, {} are needed", bytes, needed));
  return {};
}

Status plan(const octavo_flash_attn_args& args, void* workspace, size_t bytes,
            cudaStream_t stream) {
  OCTAVO_TRY(check_workspace(args, workspace, bytes));
  if (args.total_q == 0 || args.batch_size == 0) return {};
  return is_decode(args) ? plan_decode(decode_args(args), workspace, stream)
                         : plan_prefill(prefill_args(args), workspace, stream);
}

Status run(const octavo_flash_attn_args& args, void* workspace, size_t bytes, cudaStream_t stream) {
  const bool planned = args.planned != 0;
  if (planned) {
    OCTAVO_TRY(check_workspace(args, workspace, bytes));
  } else {
    OCTAVO_TRY(plan(args, workspace, bytes, stream));
  }
  if (args.total_q == 0 || args.batch_size == 0) return {};
  if (!is_decode(args)) return prefill_attention(prefill_args(args), workspace, stream);
  return decode_attention(decode_args(args), workspace, stream, {.after_plan = !planned});
}

std::string& last_error() {
  thread_local std::string message;
  return message;
}

octavo_flash_attn_status report(octavo_flash_attn_status code, std::string message) {
  last_error() = std::move(message);
  return code;
}

octavo_flash_attn_status report(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return OCTAVO_FLASH_ATTN_OK;
    case StatusCode::kInvalidArgument:
      return report(OCTAVO_FLASH_ATTN_INVALID, status.message());
    case StatusCode::kUnsupported:
      return report(OCTAVO_FLASH_ATTN_UNSUPPORTED, status.message());
    default:
      return report(OCTAVO_FLASH_ATTN_FAILED, status.message());
  }
}

using Function = Status(const octavo_flash_attn_args& args, void* workspace, size_t bytes,
                        cudaStream_t stream);

octavo_flash_attn_status call(Function* function, const octavo_flash_attn_args* args,
                              void* workspace, size_t bytes, void* stream) {
  if (args == nullptr) return report(OCTAVO_FLASH_ATTN_INVALID, "flash_attn: args is null");
  try {
    return report(function(*args, workspace, bytes, static_cast<cudaStream_t>(stream)));
  } catch (const std::exception& error) {  // DeviceError of a launch
    return report(OCTAVO_FLASH_ATTN_FAILED, error.what());
  }
}

}  // namespace
}  // namespace octavo::backends::cuda

using namespace octavo::backends::cuda;

octavo_flash_attn_status octavo_flash_attn_workspace_bytes(const octavo_flash_attn_args* args,
                                                           size_t* bytes) {
  if (args == nullptr || bytes == nullptr)
    return report(OCTAVO_FLASH_ATTN_INVALID, "flash_attn: args or bytes is null");
  const auto result = workspace_bytes(*args);
  if (!result.ok()) return report(result.status());
  *bytes = *result;
  return OCTAVO_FLASH_ATTN_OK;
}

octavo_flash_attn_status octavo_flash_attn_plan(const octavo_flash_attn_args* args, void* workspace,
                                                size_t workspace_bytes, void* stream) {
  return call(plan, args, workspace, workspace_bytes, stream);
}

octavo_flash_attn_status octavo_flash_attn_varlen(const octavo_flash_attn_args* args,
                                                  void* workspace, size_t workspace_bytes,
                                                  void* stream) {
  return call(run, args, workspace, workspace_bytes, stream);
}

const char* octavo_flash_attn_error() {
  return last_error().c_str();
}
