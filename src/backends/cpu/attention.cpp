// Attention as small matrix products: for a KV head, all query heads of its group and all query
// rows of a chunk share each key and value that is read. Positions are reduced in tiles of 256,
// merged left to right; since each query's sums run by themselves in lanes, its result does not
// depend on which queries are computed beside it, on threads, or on chunking.
#include "backends/cpu/attention.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/workspace.h"
#include "base/thread_pool.h"

namespace octavo::backends::cpu {
namespace {

using ops::AttentionArgs;
using ops::kAttentionTile;

constexpr int64_t kAhead = 128;  // keys of the next tile that are fetched beside this one's values
constexpr int64_t kMinWork = 1 << 17;  // products below which waking other threads does not pay

// Running softmax sums of the queries of a unit: exp-weighted values relative to `max`.
struct Sums {
  float* max;     // [queries]
  float* sum;     // [queries]; 0: nothing yet
  float* values;  // [queries, padded head_dim]
};

// Consecutive queries of one sequence and KV head; query i is row i / group, head i % group of the
// group.
struct Unit {
  int64_t sequence;
  int64_t kv_head;
  int64_t begin;
  int64_t count;
  int64_t first;   // the first position that any of them sees
  int64_t length;  // one beyond the last

  int64_t first_tile() const { return first / kAttentionTile; }
  int64_t end_tile() const { return (length + kAttentionTile - 1) / kAttentionTile; }
};

// The part of a tile that a unit sees, as indices within the tile: positions begin .. end - 1. Work
// starts at `aligned`, so that lanes and panels lie the same for every unit; what lies before
// `begin` counts nothing, and is not read.
struct Part {
  int64_t aligned;
  int64_t begin;
  int64_t end;
};

struct Scratch {
  float* q;             // [kMaxQueries, head_dim], as the kernel packs them
  float* scores;        // [kMaxQueries, kAttentionTile]
  const void** keys;    // rows of the cache at a tile's positions, and kAhead beyond
  const void** values;  // same
  std::byte* kernel;    // attention_scratch_bytes
  Sums tile;
  Sums total;
};

// The kernel for a type of cached rows: of `preferred`, if it has one.
const AttentionKernel& choose_kernel(DType dtype, const FloatKernels& kernels,
                                     const AttentionKernel* preferred) {
  const int type = dtype == DType::kF32    ? 0
                   : dtype == DType::kF16  ? 1
                   : dtype == DType::kBF16 ? 2
                                           : 3;
  const bool has_one = preferred != nullptr && preferred[type].score != nullptr;
  return has_one ? preferred[type] : kernels.attention[type];
}

class Attention {
 public:
  Attention(const AttentionArgs& a, const FloatKernels& kernels, const AttentionKernel* preferred)
      : a_(a),
        kernels_(kernels),
        kernel_(choose_kernel(a.kv.dtype, kernels, preferred)),
        group_(a.num_heads / a.kv.num_kv_heads),
        head_dim_(a.kv.head_dim),
        row_bytes_(a.kv.row_bytes()),
        padded_(round_up(head_dim_, kernels.panel)) {}

  void run(ops::ExecContext& ctx);

 private:
  Unit unit(int64_t index) const;
  int64_t query_rows(int64_t s) const {
    return a_.batch.cu_seqlens_q[s + 1] - a_.batch.cu_seqlens_q[s];
  }
  int64_t position(int64_t s, int64_t i) const {
    return a_.batch.seq_lens[s] - query_rows(s) + i / group_;
  }
  int64_t row_of(int64_t s, int64_t i) const { return a_.batch.cu_seqlens_q[s] + i / group_; }
  int64_t column_of(const Unit& u, int64_t i) const {
    return (u.kv_head * group_ + i % group_) * head_dim_;
  }
  Part part_of(const Unit& u, int64_t tile) const;
  int64_t locate(const Unit& u, int64_t tile, const Part& part, const Scratch& scratch) const;
  void prefetch(const void* row) const;

  Sums take_sums(Arena& arena, int64_t queries) const;
  Scratch take_scratch(Arena& arena) const;
  void load_queries(const Unit& u, Scratch& scratch) const;
  void compute_scores(const Unit& u, const Part& part, int64_t ahead, Scratch& scratch) const;
  void weigh_values(const Unit& u, const Part& part, int64_t ahead, Scratch& scratch,
                    float* values) const;
  void compute_tile(const Unit& u, int64_t tile, Scratch& scratch, const Sums& out) const;
  void reset(const Sums& sums, int64_t queries) const;
  void merge(const Sums& total, const Sums& tile, int64_t queries) const;
  void write(const Unit& u, const Sums& total) const;

  void run_units(ThreadPool& pool, Arena shared) const;
  bool run_tiles(ThreadPool& pool, Arena shared) const;

  const AttentionArgs& a_;
  const FloatKernels& kernels_;
  const AttentionKernel& kernel_;
  int64_t group_;
  int64_t head_dim_;
  int64_t row_bytes_;
  int64_t padded_;  // head_dim in whole panels
  int64_t num_units_ = 0;
  int64_t max_length_ = 0;
  int64_t max_visible_ = 0;        // positions that a sequence's last query sees
  int32_t* first_unit_ = nullptr;  // [num_seqs + 1]
};

Unit Attention::unit(int64_t index) const {
  const int32_t* after = std::upper_bound(first_unit_, first_unit_ + a_.batch.num_seqs + 1, index);
  const int64_t s = after - first_unit_ - 1;
  const int64_t queries = query_rows(s) * group_;
  const int64_t chunks = (queries + kMaxQueries - 1) / kMaxQueries;
  const int64_t local = index - first_unit_[s];
  const int64_t begin = local % chunks * kMaxQueries;
  const int64_t count = std::min(kMaxQueries, queries - begin);
  return {s,
          local / chunks,
          begin,
          count,
          a_.first_visible(position(s, begin)),
          position(s, begin + count - 1) + 1};
}

Part Attention::part_of(const Unit& u, int64_t tile) const {
  const int64_t start = tile * kAttentionTile;
  const int64_t begin = std::max<int64_t>(0, u.first - start);
  return {begin / kMaxPanel * kMaxPanel, begin, std::min(kAttentionTile, u.length - start)};
}

// The rows of positions from part.aligned on (in place of those that may not be read: part.begin).
// Goes on into the next tile for kAhead positions, as far as there are; gives where it ended, and
// fills the part's last panel with its last row.
int64_t Attention::locate(const Unit& u, int64_t tile, const Part& part,
                          const Scratch& scratch) const {
  const ops::PagedKv& kv = a_.kv;
  const int32_t* table = a_.batch.block_table + u.sequence * a_.batch.block_table_stride;
  const int64_t start = tile * kAttentionTile;
  const int64_t end = std::min(kAttentionTile + kAhead, u.length - start);
  int64_t block = (start + part.begin) / kv.block_size;
  int64_t slot = (start + part.begin) % kv.block_size;
  for (int64_t j = part.begin; j < end; ++block, slot = 0) {
    const std::byte* key = kv.row(kv.k, table[block], u.kv_head, slot);
    const std::byte* value = kv.row(kv.v, table[block], u.kv_head, slot);
    for (; slot < kv.block_size && j < end; ++slot, key += row_bytes_, value += row_bytes_) {
      scratch.keys[j] = key;
      scratch.values[j++] = value;
    }
  }
  const auto copy = [&](int64_t begin, int64_t stop, int64_t from) {
    std::fill(scratch.keys + begin, scratch.keys + stop, scratch.keys[from]);
    std::fill(scratch.values + begin, scratch.values + stop, scratch.values[from]);
  };
  copy(part.aligned, part.begin, part.begin);
  if (end < round_up(part.end, kMaxPanel)) copy(end, round_up(part.end, kMaxPanel), end - 1);
  return end;
}

void Attention::prefetch(const void* row) const {
  const auto* bytes = static_cast<const std::byte*>(row);
  // A line that a row ends in is most often the one that the next row begins in.
  for (int64_t i = 0; i == 0 || i + kCacheLine <= row_bytes_; i += kCacheLine) {
    __builtin_prefetch(bytes + i, 0, 2);
  }
}

Sums Attention::take_sums(Arena& arena, int64_t queries) const {
  return {arena.take<float>(queries), arena.take<float>(queries),
          arena.take<float>(queries * padded_)};
}

Scratch Attention::take_scratch(Arena& arena) const {
  Scratch s;
  s.q = arena.take<float>(kMaxQueries * head_dim_);
  s.scores = arena.take<float>(kMaxQueries * kAttentionTile);
  s.keys = arena.take<const void*>(kAttentionTile + kAhead);
  s.values = arena.take<const void*>(kAttentionTile + kAhead);
  s.kernel = arena.take<std::byte>(attention_scratch_bytes(padded_));
  s.tile = take_sums(arena, kMaxQueries);
  s.total = take_sums(arena, kMaxQueries);
  return s;
}

void Attention::load_queries(const Unit& u, Scratch& scratch) const {
  for (int64_t i = 0; i < u.count; ++i) {
    const int64_t query = u.begin + i;
    const float* src = a_.q.row<float>(row_of(u.sequence, query)) + column_of(u, query);
    kernel_.pack_query(scratch.q + i * head_dim_, src, a_.scale, head_dim_);
  }
}

// scores[i, j] = q[i] · key[j], capped, for the part. On the way the next keys and the values that
// will be wanted are fetched: a long cache is read from memory.
void Attention::compute_scores(const Unit& u, const Part& part, int64_t ahead,
                               Scratch& scratch) const {
  const int panel = kernels_.panel;
  for (int64_t j = part.aligned; j < part.end; j += panel) {
    for (int64_t r = j; r < j + panel; ++r) {
      prefetch(scratch.values[r]);
      if (r + panel < ahead) prefetch(scratch.keys[r + panel]);
    }
    kernel_.score({scratch.scores + j, kAttentionTile, scratch.q, u.count, scratch.keys + j,
                   head_dim_, scratch.kernel});
  }
  for (int64_t i = 0; a_.softcap > 0 && i < u.count; ++i) {
    float* scores = scratch.scores + i * kAttentionTile + part.aligned;
    kernels_.softcap(scores, part.end - part.aligned, a_.softcap);
  }
}

// values[i, :] = sum over the part's j of scores[i, j] * value[j, :].
void Attention::weigh_values(const Unit& u, const Part& part, int64_t ahead, Scratch& scratch,
                             float* values) const {
  constexpr int64_t kStep = kAhead * kValueChunk / kAttentionTile;
  for (int64_t j = part.aligned; j < part.end; j += kValueChunk) {
    const int64_t next = kAttentionTile + j * kAhead / kAttentionTile;
    for (int64_t r = next; r < std::min(next + kStep, ahead); ++r) prefetch(scratch.keys[r]);
    kernel_.weigh({values, scratch.scores + j, kAttentionTile, u.count, scratch.values + j,
                   std::min(kValueChunk, part.end - j), head_dim_, j > part.aligned,
                   scratch.kernel});
  }
}

void Attention::compute_tile(const Unit& u, int64_t tile, Scratch& scratch, const Sums& out) const {
  const Part part = part_of(u, tile);
  const int64_t ahead = locate(u, tile, part, scratch);
  compute_scores(u, part, ahead, scratch);
  for (int64_t i = 0; i < u.count; ++i) {
    float* scores = scratch.scores + i * kAttentionTile;
    const int64_t last = position(u.sequence, u.begin + i);
    const int64_t first = a_.first_visible(last) - tile * kAttentionTile;
    const int64_t begin = std::clamp(first, part.aligned, part.end);
    const int64_t end = std::min(part.end, last + 1 - tile * kAttentionTile);
    if (begin < end) {
      // From a whole panel on, whatever else the unit sees: the order of its sum is the query's
      // own.
      const int64_t aligned = begin / kMaxPanel * kMaxPanel;
      std::fill(scores + aligned, scores + begin, -std::numeric_limits<float>::infinity());
      kernels_.softmax(scores + aligned, end - aligned, part.end - aligned, &out.max[i],
                       &out.sum[i]);
      std::fill(scores + part.aligned, scores + begin, 0.0f);
    } else {
      std::fill(scores + part.aligned, scores + part.end, 0.0f);
      out.sum[i] = 0;
    }
  }
  weigh_values(u, part, ahead, scratch, out.values);
}

void Attention::reset(const Sums& sums, int64_t queries) const {
  std::fill(sums.max, sums.max + queries, -std::numeric_limits<float>::infinity());
  std::fill(sums.sum, sums.sum + queries, 0.0f);
  std::fill(sums.values, sums.values + queries * padded_, 0.0f);
}

void Attention::merge(const Sums& total, const Sums& tile, int64_t queries) const {
  for (int64_t i = 0; i < queries; ++i) {
    if (tile.sum[i] == 0) continue;  // the query ends before this tile
    const float max = std::max(total.max[i], tile.max[i]);
    const float old_factor = std::exp(total.max[i] - max);
    const float new_factor = std::exp(tile.max[i] - max);
    float* values = total.values + i * padded_;
    const float* added = tile.values + i * padded_;
    for (int64_t d = 0; d < padded_; ++d) {
      values[d] = values[d] * old_factor + added[d] * new_factor;
    }
    total.sum[i] = total.sum[i] * old_factor + tile.sum[i] * new_factor;
    total.max[i] = max;
  }
}

void Attention::write(const Unit& u, const Sums& total) const {
  for (int64_t i = 0; i < u.count; ++i) {
    const int64_t query = u.begin + i;
    float* out = a_.out.row<float>(row_of(u.sequence, query)) + column_of(u, query);
    const float factor = 1 / total.sum[i];
    // Adding zero makes -0 into 0: whether a masked position was multiplied in must not show.
    for (int64_t d = 0; d < head_dim_; ++d) {
      out[d] = total.values[i * padded_ + d] * factor + 0.0f;
    }
  }
}

// Threads take whole units, the longest (the last rows of a prompt) first.
void Attention::run_units(ThreadPool& pool, Arena shared) const {
  const int num_threads = pool.num_threads();
  const int64_t scratch_bytes = attention_workspace_bytes(head_dim_, 1) - kAttentionPartialBytes;
  auto* scratch_memory = shared.take<std::byte>(num_threads * scratch_bytes);
  std::atomic<int64_t> next{num_units_};
  const auto work = [&](int64_t thread) {
    Arena arena(scratch_memory + thread * scratch_bytes, scratch_bytes);
    Scratch scratch = take_scratch(arena);
    for (int64_t i = next.fetch_sub(1) - 1; i >= 0; i = next.fetch_sub(1) - 1) {
      const Unit u = unit(i);
      load_queries(u, scratch);
      reset(scratch.total, u.count);
      for (int64_t tile = u.first_tile(); tile < u.end_tile(); ++tile) {
        compute_tile(u, tile, scratch, scratch.tile);
        merge(scratch.total, scratch.tile, u.count);
      }
      write(u, scratch.total);
    }
  };
  if (max_visible_ * a_.batch.num_tokens * a_.num_heads * head_dim_ < kMinWork) return work(0);
  pool.parallel_for(num_threads, 1, [&](int64_t, int64_t, int thread) { work(thread); });
}

// Few units (a single sequence that is decoded): threads share the tiles of a unit. Each round
// computes as many tiles as there is room for and then merges them, in the same order as above.
// False where the room does not suffice.
bool Attention::run_tiles(ThreadPool& pool, Arena shared) const {
  const int num_threads = pool.num_threads();
  const int64_t scratch_bytes = attention_workspace_bytes(head_dim_, 1) - kAttentionPartialBytes;
  auto* scratch_memory = shared.take<std::byte>(num_threads * scratch_bytes);

  const int64_t queries = std::min(kMaxQueries, a_.batch.num_tokens * group_);
  const int64_t sums_bytes =
      2 * round_up(queries * 4, kCacheLine) + round_up(queries * padded_ * 4, kCacheLine);
  const int64_t room =
      std::min(shared.left_bytes(), kAttentionPartialBytes) / sums_bytes / num_units_;
  int64_t first_tile = INT64_MAX;
  for (int64_t i = 0; i < num_units_; ++i) first_tile = std::min(first_tile, unit(i).first_tile());
  const int64_t end_tile = (max_length_ + kAttentionTile - 1) / kAttentionTile;
  const int64_t round_tiles = std::min(end_tile - first_tile, room - 1);
  if (round_tiles < 1) return false;

  auto* memory = shared.take<std::byte>(num_units_ * (round_tiles + 1) * sums_bytes);
  // Slot round_tiles of a unit holds its total.
  const auto sums = [&](int64_t unit_index, int64_t slot) {
    Arena arena(memory + (unit_index * (round_tiles + 1) + slot) * sums_bytes, sums_bytes);
    return take_sums(arena, queries);
  };
  for (int64_t i = 0; i < num_units_; ++i) reset(sums(i, round_tiles), unit(i).count);
  for (int64_t first = first_tile; first < end_tile; first += round_tiles) {
    const int64_t tiles = std::min(round_tiles, end_tile - first);
    pool.parallel_for(num_units_ * tiles, 1, [&](int64_t begin, int64_t end, int thread) {
      Arena arena(scratch_memory + thread * scratch_bytes, scratch_bytes);
      Scratch scratch = take_scratch(arena);
      for (int64_t item = begin; item < end; ++item) {
        const Unit u = unit(item / tiles);
        const int64_t tile = first + item % tiles;
        if (tile < u.first_tile() || tile >= u.end_tile()) continue;
        load_queries(u, scratch);
        compute_tile(u, tile, scratch, sums(item / tiles, item % tiles));
      }
    });
    for (int64_t i = 0; i < num_units_; ++i) {
      const Unit u = unit(i);
      const int64_t end = std::min(first + tiles, u.end_tile());
      for (int64_t tile = std::max(first, u.first_tile()); tile < end; ++tile) {
        merge(sums(i, round_tiles), sums(i, tile - first), u.count);
      }
    }
  }
  for (int64_t i = 0; i < num_units_; ++i) write(unit(i), sums(i, round_tiles));
  return true;
}

void Attention::run(ops::ExecContext& ctx) {
  const ops::SequenceBatch& batch = a_.batch;
  Arena shared(ctx.workspace, ctx.workspace_bytes);
  first_unit_ = shared.take<int32_t>(batch.num_seqs + 1);
  for (int64_t s = 0; s < batch.num_seqs; ++s) {
    const int64_t chunks = (query_rows(s) * group_ + kMaxQueries - 1) / kMaxQueries;
    first_unit_[s] = static_cast<int32_t>(num_units_);
    num_units_ += chunks * a_.kv.num_kv_heads;
    const int64_t length = batch.seq_lens[s];
    max_length_ = std::max(max_length_, length);
    max_visible_ = std::max(max_visible_, length - a_.first_visible(length - 1));
  }
  first_unit_[batch.num_seqs] = static_cast<int32_t>(num_units_);

  const int num_threads = ctx.pool->num_threads();
  const bool few_units = num_threads > 1 && num_units_ < 2 * num_threads;
  if (few_units && max_visible_ > kAttentionTile && run_tiles(*ctx.pool, shared)) return;
  run_units(*ctx.pool, shared);
}

}  // namespace

void attention(ops::ExecContext& ctx, const AttentionArgs& args, const FloatKernels& kernels,
               const AttentionKernel* preferred) {
  if (args.batch.num_tokens > 0) Attention(args, kernels, preferred).run(ctx);
}

int64_t attention_workspace_bytes(int64_t max_head_dim, int num_threads) {
  const int64_t padded = round_up(max_head_dim, kMaxPanel);
  const int64_t sums = 2 * kMaxQueries + kMaxQueries * padded;
  const int64_t floats = kMaxQueries * padded + kMaxQueries * kAttentionTile + 2 * sums;
  const int64_t rows = 2 * (kAttentionTile + kAhead);
  const int64_t bytes = floats * static_cast<int64_t>(sizeof(float)) +
                        rows * static_cast<int64_t>(sizeof(void*)) +
                        attention_scratch_bytes(padded);
  return num_threads * bytes + kAttentionPartialBytes;
}

}  // namespace octavo::backends::cpu
