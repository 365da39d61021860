#include "backends/kernel_bench.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "backends/cpu/device_cpu.h"
#include "backends/cpu/peak.h"
#include "backends/cpu/weight_memory.h"
#include "backends/registry.h"
#include "backends/select.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/percentile.h"
#include "base/rng.h"
#include "base/thread_pool.h"

namespace octavo::backends {
namespace {

// What is measured: the shapes of a model of 135 million weights and of one of a billion (SmolLM2
// and Llama 3.2), at each number of rows.
struct ModelShape {
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t num_heads;
  int64_t num_kv_heads;
  int64_t head_dim;
};
constexpr ModelShape kModels[] = {{576, 1536, 9, 3, 64}, {2048, 8192, 32, 8, 64}};
constexpr int64_t kRows[] = {1, 2, 4, 8, 32, 512};
constexpr int64_t kMostRows = 512;
constexpr int64_t kMostCols = 8192;

// Sequences of `rows_each` new tokens, each of which sees all `context` before it.
struct AttentionShape {
  int64_t context;
  int64_t num_seqs;
  int64_t rows_each;
};
constexpr AttentionShape kAttentions[] = {{512, 1, 1},  {512, 8, 1},  {512, 1, 512},
                                          {4096, 1, 1}, {4096, 8, 1}, {4096, 1, 512}};
constexpr DType kKvTypes[] = {DType::kBF16, DType::kF16, DType::kI8};
constexpr int64_t kBlockSize = 16;

// Where weights and keys lie, over and over: more than caches hold.
constexpr int64_t kColdBytes = int64_t{256} << 20;

constexpr double kMeasuredSeconds = 0.05;
constexpr double kLongCallSeconds = 1;  // once so much is spent, one call is enough

}  // namespace

struct KernelBench::Impl {
  Backend backend;
  std::unique_ptr<ThreadPool> pool;
  Buffer workspace;
  Buffer x;    // [kMostRows, kMostCols] float32, of magnitude 0.5 to 1.5
  Buffer out;  // same
  std::shared_ptr<void> cold_memory;
  Buffer cold;
  // Of one sequence each.
  std::vector<int32_t> block_table;
  std::vector<int32_t> cu_seqlens;
  std::vector<int32_t> seq_lens;
  std::vector<int32_t> positions = std::vector<int32_t>(kMostRows);
  std::vector<float> inv_freq = std::vector<float>(kMostCols, 0.1f);
  std::vector<float> norm_weight = std::vector<float>(kMostCols, 1.0f);
  // The one that `cold` is full of.
  ops::Weight weight;

  ops::ExecContext context() const {
    return {pool.get(), workspace.data.get(), workspace.size_bytes, backend.device};
  }
  ops::Mat activations(const Buffer& buffer, int64_t rows, int64_t cols) const {
    return {buffer.data.get(), DType::kF32, rows, cols};
  }

  Status allocate();
  Status fill_weights(DType dtype, int64_t rows, int64_t cols);
  ops::PagedKv fill_kv(const ModelShape& model, DType dtype, int64_t context_len);

  KernelCase named(std::string name, const cpu::KernelFn& fn, bool multiplies) const;
  KernelCase linear(DType dtype, int64_t out_features, int64_t in_features, int64_t rows);
  KernelCase attention(const ModelShape& model, DType kv_dtype, const AttentionShape& shape);

  struct RowOp {
    std::string_view name;
    int64_t ModelShape::*cols;
    int64_t values;  // float32 that it reads and writes for each of a row
    cpu::KernelFn (*fn)(const ops::Ops& ops);
    void (*call)(const Impl& bench, ops::ExecContext& ctx, const ops::Mat& to,
                 const ops::Mat& from);
  };
  static std::span<const RowOp> row_ops();
  KernelCase row_op(const RowOp& op, const ModelShape& model, int64_t rows);
};

namespace {

// Random bits, of which every number is finite, normal and not tiny, whatever type is read out of
// them: bytes of the form ?01?????.
void fill_random(std::byte* data, int64_t size_bytes) {
  Rng rng(1);
  for (int64_t i = 0; i < size_bytes; i += 8) {
    const uint64_t bits = (rng.next_u64() & 0x9F9F9F9F9F9F9F9Fu) | uint64_t{0x2020202020202020u};
    std::memcpy(data + i, &bits, static_cast<size_t>(std::min<int64_t>(8, size_bytes - i)));
  }
}

// Copies the first `size_bytes` of `data` behind themselves as often as there is room.
int64_t fill_with_copies(std::byte* data, int64_t size_bytes, int64_t room) {
  const int64_t copies = std::max<int64_t>(1, room / size_bytes);
  for (int64_t i = 1; i < copies; ++i) {
    std::memcpy(data + i * size_bytes, data, static_cast<size_t>(size_bytes));
  }
  return copies;
}

}  // namespace

Status KernelBench::Impl::allocate() {
  Device& device = *backend.device;
  const int64_t values = kMostRows * kMostCols;
  const auto bytes = static_cast<int64_t>(values * sizeof(float));
  x = OCTAVO_TRY(device.allocate(bytes, "activations"));
  out = OCTAVO_TRY(device.allocate(bytes, "outputs"));
  workspace = OCTAVO_TRY(device.allocate(
      backend.ops.workspace_bytes(kMostRows, kMostCols, pool->num_threads()), "workspace"));
  cold = OCTAVO_TRY(cpu::allocate_weights(cold_memory, kColdBytes, "weights"));
  std::iota(positions.begin(), positions.end(), 0);
  Rng rng(2);
  for (int64_t i = 0; i < values; ++i) {
    const double number = rng.next_double();
    x.as<float>()[i] = static_cast<float>(number < 0.5 ? number - 1.5 : number + 0.5);
  }
  return {};
}

Status KernelBench::Impl::fill_weights(DType dtype, int64_t rows, int64_t cols) {
  if (weight.data != nullptr && weight.dtype == dtype && weight.rows == rows &&
      weight.cols == cols) {
    return {};
  }
  Tensor tensor{"weights", dtype, {rows, cols}, nullptr, nullptr};
  const Buffer source = OCTAVO_TRY(backend.device->allocate(tensor.size_bytes(), "weights"));
  fill_random(source.data.get(), source.size_bytes);
  tensor.data = source.data.get();
  tensor.owner = source.data;
  ops::PackContext pack{*backend.device, pool.get(), nullptr};
  weight = OCTAVO_TRY(backend.ops.pack_weight(backend.ops, pack, tensor, {}));
  // Packed rows are padded to a panel, of which these are multiples.
  std::memcpy(cold.data.get(), weight.data, static_cast<size_t>(weight.size_bytes()));
  fill_with_copies(cold.data.get(), weight.size_bytes(), kColdBytes);
  weight.data = cold.data.get();
  weight.owner = cold.data;
  return {};
}

// The cache of as many sequences of `context_len` tokens as there is room for.
ops::PagedKv KernelBench::Impl::fill_kv(const ModelShape& model, DType dtype, int64_t context_len) {
  weight = {};
  const int64_t blocks = context_len / kBlockSize;
  ops::PagedKv kv{cold.data.get(), cold.data.get() + kColdBytes / 2,
                  dtype,           blocks,
                  kBlockSize,      model.num_kv_heads,
                  model.head_dim};
  std::vector<int64_t> slots(static_cast<size_t>(context_len));
  for (int64_t i = 0; i < context_len; ++i) slots[i] = i;
  ops::ExecContext ctx = context();
  const ops::Mat rows =
      activations(x, context_len, model.num_kv_heads * model.head_dim);  // fewer than x has
  backend.ops.write_kv(ctx, {kv, rows, rows, slots.data()});
  int64_t num_seqs = 0;
  for (void* part : {kv.k, kv.v}) {
    num_seqs =
        fill_with_copies(static_cast<std::byte*>(part), blocks * kv.block_bytes(), kColdBytes / 2);
  }
  kv.num_blocks = num_seqs * blocks;
  block_table.resize(static_cast<size_t>(kv.num_blocks));
  for (int64_t i = 0; i < kv.num_blocks; ++i) block_table[i] = static_cast<int32_t>(i);
  return kv;
}

// The kernel behind a function pointer, and what bounds it.
KernelCase KernelBench::Impl::named(std::string name, const cpu::KernelFn& fn,
                                    bool multiplies) const {
  KernelCase one;
  one.name = std::move(name);
  for (const cpu::Kernel& kernel : cpu::kernel_table()) {
    if (kernel.fn != fn) continue;
    one.kernel = kernel.name;
    if (multiplies) one.peak = cpu::peak_loop(kernel.arithmetic, kernel.isa).name;
  }
  return one;
}

KernelCase KernelBench::Impl::linear(DType dtype, int64_t out_features, int64_t in_features,
                                     int64_t rows) {
  KernelCase one = named(
      format("linear {} {}x{} rows={}", dtype_traits(dtype).name, out_features, in_features, rows),
      backend.ops.linear_by_dtype[static_cast<int>(dtype)], true);
  one.bytes = static_cast<double>(out_features * dtype_bytes(dtype, in_features));
  one.multiply_adds = static_cast<double>(out_features * in_features * rows);
  one.prepare = [=, this]() -> Result<KernelCall> {
    OCTAVO_TRY(fill_weights(dtype, out_features, in_features));
    const int64_t copies = std::max<int64_t>(1, kColdBytes / weight.size_bytes());
    return KernelCall([=, this](int64_t i) {
      ops::Weight cold_weight = weight;
      cold_weight.data += i % copies * weight.size_bytes();
      ops::ExecContext ctx = context();
      backend.ops.linear(ctx, {activations(out, rows, out_features),
                               activations(x, rows, in_features), &cold_weight});
    });
  };
  return one;
}

KernelCase KernelBench::Impl::attention(const ModelShape& model, DType kv_dtype,
                                        const AttentionShape& shape) {
  const int64_t rows = shape.num_seqs * shape.rows_each;
  KernelCase one =
      named(format("attention {} heads={}/{}x{} context={} rows={}", dtype_traits(kv_dtype).name,
                   model.num_heads, model.num_kv_heads, model.head_dim, shape.context, rows),
            backend.ops.attention, true);
  one.bytes = static_cast<double>(2 * shape.num_seqs * shape.context * model.num_kv_heads *
                                  ops::kv_row_bytes(kv_dtype, model.head_dim));
  // Row r of a sequence's new ones sees those up to itself.
  const int64_t hidden = shape.rows_each * (shape.rows_each - 1) / 2;
  one.multiply_adds = static_cast<double>(2 * model.head_dim * model.num_heads * shape.num_seqs *
                                          (shape.rows_each * shape.context - hidden));
  one.prepare = [=, this]() -> Result<KernelCall> {
    OCTAVO_CHECK(shape.context >= kBlockSize && shape.num_seqs > 0);
    ops::AttentionArgs args;
    args.kv = fill_kv(model, kv_dtype, shape.context);
    args.out = activations(out, rows, model.num_heads * model.head_dim);
    args.q = activations(x, rows, model.num_heads * model.head_dim);
    args.num_heads = model.num_heads;
    args.scale = 0.125f;
    seq_lens.assign(static_cast<size_t>(shape.num_seqs), static_cast<int32_t>(shape.context));
    cu_seqlens.clear();
    for (int64_t s = 0; s <= shape.num_seqs; ++s) {
      cu_seqlens.push_back(static_cast<int32_t>(s * shape.rows_each));
    }
    args.batch.num_tokens = rows;
    args.batch.num_seqs = shape.num_seqs;
    args.batch.cu_seqlens_q = cu_seqlens.data();
    args.batch.seq_lens = seq_lens.data();
    args.batch.block_table_stride = shape.context / kBlockSize;
    const int64_t batches = args.kv.num_blocks / args.batch.block_table_stride / shape.num_seqs;
    return KernelCall([=, this](int64_t i) {
      ops::AttentionArgs call = args;
      call.batch.block_table =
          block_table.data() + i % batches * shape.num_seqs * args.batch.block_table_stride;
      ops::ExecContext ctx = context();
      backend.ops.attention(ctx, call);
    });
  };
  return one;
}

// Activations stay in the caches, so that these may be faster than memory is.
std::span<const KernelBench::Impl::RowOp> KernelBench::Impl::row_ops() {
  using ops::Mat;
  using ops::Ops;
  static constexpr RowOp kRowOps[] = {
      {"rms_norm", &ModelShape::hidden_size, 2,
       [](const Ops& ops) -> cpu::KernelFn { return ops.rms_norm; },
       [](const Impl& bench, ops::ExecContext& ctx, const Mat& to, const Mat& from) {
         bench.backend.ops.rms_norm(ctx, {to, from, bench.norm_weight.data()});
       }},
      {"rope", &ModelShape::hidden_size, 2,
       [](const Ops& ops) -> cpu::KernelFn { return ops.rope; },
       [](const Impl& bench, ops::ExecContext& ctx, const Mat&, const Mat& from) {
         bench.backend.ops.rope(ctx, {from, bench.positions.data(), bench.inv_freq.data(), 64, 64});
       }},
      {"activation_mul", &ModelShape::intermediate_size, 3,
       [](const Ops& ops) -> cpu::KernelFn { return ops.activation_mul; },
       [](const Impl& bench, ops::ExecContext& ctx, const Mat& to, const Mat& from) {
         bench.backend.ops.activation_mul(ctx, {to, from, from});
       }},
      {"add", &ModelShape::hidden_size, 3, [](const Ops& ops) -> cpu::KernelFn { return ops.add; },
       [](const Impl& bench, ops::ExecContext& ctx, const Mat& to, const Mat& from) {
         bench.backend.ops.add(ctx, {to, from});
       }},
  };
  return kRowOps;
}

KernelCase KernelBench::Impl::row_op(const RowOp& op, const ModelShape& model, int64_t rows) {
  const int64_t cols = model.*op.cols;
  KernelCase one = named(format("{} {} rows={}", op.name, cols, rows), op.fn(backend.ops), false);
  one.bytes = static_cast<double>(op.values * rows * cols) * sizeof(float);
  one.prepare = [=, this, call = op.call]() -> Result<KernelCall> {
    return KernelCall([=, this](int64_t) {
      ops::ExecContext ctx = context();
      call(*this, ctx, activations(out, rows, cols), activations(x, rows, cols));
    });
  };
  return one;
}

KernelBench::KernelBench(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

KernelBench::~KernelBench() = default;

Result<std::unique_ptr<KernelBench>> KernelBench::create(int threads) {
  auto impl = std::make_unique<Impl>();
  impl->backend = OCTAVO_TRY(open_backend("cpu", Arithmetic::kAuto));
  impl->pool = OCTAVO_TRY(ThreadPool::create(threads == 0 ? available_threads() : threads));
  OCTAVO_TRY(impl->allocate());
  return std::unique_ptr<KernelBench>(new KernelBench(std::move(impl)));
}

const std::string& KernelBench::kernels() const {
  return impl_->backend.kernels;
}

int KernelBench::num_threads() const {
  return impl_->pool->num_threads();
}

std::vector<KernelCase> KernelBench::cases() {
  std::vector<KernelCase> all;
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (impl_->backend.ops.linear_by_dtype[i] == nullptr) continue;
    for (const ModelShape& model : kModels) {
      const int64_t sizes[] = {model.hidden_size, model.intermediate_size};
      for (int input = 0; input < 2; ++input) {
        if (sizes[input] % dtype_traits(dtype).block_size != 0) continue;
        for (const int64_t rows : kRows) {
          all.push_back(impl_->linear(dtype, sizes[1 - input], sizes[input], rows));
        }
      }
    }
  }
  for (const DType dtype : kKvTypes) {
    for (const ModelShape& model : kModels) {
      for (const AttentionShape& shape : kAttentions) {
        all.push_back(impl_->attention(model, dtype, shape));
      }
    }
  }
  for (const Impl::RowOp& op : Impl::row_ops()) {
    for (const ModelShape& model : kModels) {
      for (const int64_t rows : kRows) all.push_back(impl_->row_op(op, model, rows));
    }
  }
  return all;
}

Result<double> KernelBench::measure(const KernelCase& one) {
  const KernelCall call = OCTAVO_TRY(one.prepare());
  call(0);  // warms up
  std::vector<double> seconds;
  double total = 0;
  for (int64_t i = 1; total < kMeasuredSeconds || (i <= 3 && total < kLongCallSeconds); ++i) {
    const double start = now_seconds();
    call(i);
    seconds.push_back(now_seconds() - start);
    total += seconds.back();
  }
  return percentile(seconds, 50);
}

double KernelBench::peak(std::string_view name) {
  // Short and many, so that some have the cores for themselves.
  constexpr int64_t kRounds = 100'000;  // some 200 µs
  constexpr int kPasses = 200;
  double best = 0;
  for (const cpu::PeakLoop& loop : cpu::peak_loops()) {
    if (loop.name != name) continue;
    for (int pass = 0; pass < kPasses; ++pass) {
      const double start = now_seconds();
      impl_->pool->parallel_for(num_threads(), 1, [&](int64_t begin, int64_t end, int) {
        loop.run((end - begin) * kRounds);
      });
      const auto done = static_cast<double>(num_threads() * kRounds * loop.multiply_adds);
      best = std::max(best, done / (now_seconds() - start));
    }
  }
  return best;
}

}  // namespace octavo::backends
