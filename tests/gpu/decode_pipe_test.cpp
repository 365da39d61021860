// A model of the decode kernel's barriers (src/backends/cuda/tile/decode_stream.cuh), run on a CPU:
// producers, warps that compute, and mergers take steps in random order, copies end in any order,
// items have any number of splits and these of tiles, none included. Nobody may read what has not
// arrived or is gone, and everybody must come to an end.
#include <gtest/gtest.h>

#include <array>
#include <coroutine>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace octavo::backends::cuda {
namespace {

// As the hardware's: a phase ends when all have arrived and all announced bytes have come.
struct Barrier {
  int arrivals = 1, pending = 1, bytes = 0, phase = 0;

  explicit Barrier(int count) : arrivals(count), pending(count) {}
  void arrive(int expected_bytes = 0) {
    --pending;
    add_bytes(expected_bytes);
  }
  void add_bytes(int count) {
    bytes += count;
    if (pending != 0 || bytes != 0) return;
    ++phase;
    pending = arrivals;
  }
  bool passed(int parity) const { return phase % 2 != parity; }
};

// A warp: does one step at a time; waiting is to suspend and look again.
struct Actor {
  struct promise_type {
    Actor get_return_object() {
      return Actor{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
  explicit Actor(std::coroutine_handle<promise_type> h) : handle(h) {}
  Actor(Actor&& other) noexcept : handle(std::exchange(other.handle, {})) {}
  Actor& operator=(Actor&&) = delete;
  ~Actor() {
    if (handle) handle.destroy();
  }
  std::coroutine_handle<promise_type> handle;
};

constexpr int kSlabs = 2, kItems = 4, kKinds = 2;

struct Model {
  int num_warps;
  std::array<int, kKinds> stages;
  bool looks_at_room;  // whether a warp waits for the stage's tile before (wait_tile)
  bool in_turn;        // whether the first tile of a split is for the warp whose turn it is
  std::mt19937 rng;
  std::vector<std::vector<int>> items;  // tiles of each split of each
  std::vector<std::vector<Barrier>> full, empty;
  std::vector<Barrier> item_full, item_empty;
  Barrier merge_full, merge_empty{1};
  std::vector<std::vector<std::pair<int, int>>> data;  // [kind][stage]: tile, slabs arrived
  std::vector<int> announced = std::vector<int>(kItems, -1);
  std::vector<std::pair<int, int>> flying;  // kind, tile: a slab each
  std::vector<int> handed_over;             // by each warp: the split, of all items'
  bool wrong = false;
  int steps_left = 0;

  Model(unsigned seed, int warps, std::array<int, kKinds> num_stages, bool looks = true,
        bool takes_turns = true)
      : num_warps(warps),
        stages(num_stages),
        looks_at_room(looks),
        in_turn(takes_turns),
        rng(seed),
        full{std::vector<Barrier>(static_cast<size_t>(num_stages[0]), Barrier(1)),
             std::vector<Barrier>(static_cast<size_t>(num_stages[1]), Barrier(1))},
        empty(full),
        item_full(kItems, Barrier(1)),
        item_empty(kItems, Barrier(warps + 2)),
        merge_full(warps),
        data{std::vector<std::pair<int, int>>(full[0].size(), {-1, 0}),
             std::vector<std::pair<int, int>>(full[1].size(), {-1, 0})},
        handed_over(static_cast<size_t>(warps), -1) {
    const int choices[] = {0, 0, 1, 1, 2, 3, 5, 8, 13};
    const auto count = static_cast<size_t>(random(12));
    for (size_t i = 0; i < count; ++i) {
      items.emplace_back(static_cast<size_t>(1 + random(4)));
      for (int& tiles : items.back()) tiles = choices[random(9)];
    }
    steps_left = 50000;
  }

  int random(int below) { return static_cast<int>(rng() % static_cast<unsigned>(below)); }
  Barrier& tile_full(int kind, int tile) { return at(full, kind, tile); }
  Barrier& tile_empty(int kind, int tile) { return at(empty, kind, tile); }
  template <typename T>
  T& at(std::vector<std::vector<T>>& all, int kind, int tile) const {
    return all[static_cast<size_t>(kind)][static_cast<size_t>(tile % stages_of(kind))];
  }
  int stages_of(int kind) const { return stages[static_cast<size_t>(kind)]; }
  int num_items() const { return static_cast<int>(items.size()); }
  const std::vector<int>& splits(int item) const { return items[static_cast<size_t>(item)]; }

  Actor producer(int kind) {
    int tile = 0;
    for (int item = 0; item <= num_items(); ++item) {
      const auto slot = static_cast<size_t>(item % kItems);
      if (kind == 0) {
        while (!item_empty[slot].passed(item / kItems % 2 ^ 1)) co_await std::suspend_always{};
        announced[slot] = item;
        item_full[slot].arrive();
      } else {
        while (!item_full[slot].passed(item / kItems % 2)) co_await std::suspend_always{};
        wrong |= announced[slot] != item;
        item_empty[slot].arrive();
      }
      co_await std::suspend_always{};
      if (item == num_items()) break;
      const int tiles = std::accumulate(splits(item).begin(), splits(item).end(), 0);
      for (int i = 0; i < tiles; ++i, ++tile) {
        while (!tile_empty(kind, tile).passed(tile / stages_of(kind) % 2 ^ 1))
          co_await std::suspend_always{};
        at(data, kind, tile) = {tile, 0};
        tile_full(kind, tile).arrive(kSlabs);
        for (int slab = 0; slab < kSlabs; ++slab) flying.emplace_back(kind, tile);
        co_await std::suspend_always{};
      }
    }
  }

  Actor warp(int index) {
    int first = 0, split = 0;
    for (int item = 0;; ++item) {
      const auto slot = static_cast<size_t>(item % kItems);
      while (!item_full[slot].passed(item / kItems % 2)) co_await std::suspend_always{};
      wrong |= announced[slot] != item;
      if (item == num_items()) break;
      for (const int tiles : splits(item)) {
        const int rank = in_turn ? (index + num_warps - first % num_warps) % num_warps : index;
        for (int tile = first + rank; tile < first + tiles; tile += num_warps) {
          for (int kind = 0; kind < kKinds; ++kind) {
            const int parity = tile / stages_of(kind) % 2;
            while (looks_at_room && !tile_empty(kind, tile).passed(parity ^ 1)) {
              co_await std::suspend_always{};
            }
            while (!tile_full(kind, tile).passed(parity)) co_await std::suspend_always{};
            wrong |= at(data, kind, tile) != std::pair(tile, kSlabs);
            co_await std::suspend_always{};
            wrong |= at(data, kind, tile) != std::pair(tile, kSlabs);
            tile_empty(kind, tile).arrive();
            co_await std::suspend_always{};
          }
        }
        first += tiles;
        while (!merge_empty.passed(split % 2 ^ 1)) co_await std::suspend_always{};
        handed_over[static_cast<size_t>(index)] = split++;
        merge_full.arrive();
        co_await std::suspend_always{};
      }
      item_empty[slot].arrive();
      co_await std::suspend_always{};
    }
  }

  Actor merger() {
    int split = 0;
    for (int item = 0;; ++item) {
      const auto slot = static_cast<size_t>(item % kItems);
      while (!item_full[slot].passed(item / kItems % 2)) co_await std::suspend_always{};
      wrong |= announced[slot] != item;
      if (item == num_items()) break;
      for (size_t i = 0; i < splits(item).size(); ++i, ++split) {
        while (!merge_full.passed(split % 2)) co_await std::suspend_always{};
        for (const int theirs : handed_over) wrong |= theirs != split;
        co_await std::suspend_always{};
        for (const int theirs : handed_over) wrong |= theirs != split;
        merge_empty.arrive();
        co_await std::suspend_always{};
      }
      item_empty[slot].arrive();
    }
  }

  void land_a_copy() {
    const auto chosen = flying.begin() + random(static_cast<int>(flying.size()));
    const auto [kind, tile] = *chosen;
    flying.erase(chosen);
    if (at(data, kind, tile).first == tile) ++at(data, kind, tile).second;
    tile_full(kind, tile).add_bytes(-1);
  }

  // True where everybody came to an end and read what it should.
  bool run() {
    std::vector<Actor> actors;
    for (int kind = 0; kind < kKinds; ++kind) actors.push_back(producer(kind));
    for (int i = 0; i < num_warps; ++i) actors.push_back(warp(i));
    actors.push_back(merger());
    for (size_t done = 0; steps_left > 0 && !wrong; --steps_left) {
      if (!flying.empty() && random(3) == 0) {
        land_a_copy();
        continue;
      }
      const Actor& actor = actors[static_cast<size_t>(random(static_cast<int>(actors.size())))];
      if (actor.handle.done()) continue;
      actor.handle.resume();
      if (actor.handle.done() && ++done == actors.size()) return flying.empty();
    }
    return false;
  }
};

TEST(DecodePipe, NobodyReadsTooEarlyOrWaitsForEver) {
  const struct {
    int warps;
    std::array<int, kKinds> stages;
  } shapes[] = {{4, {5, 6}}, {4, {4, 4}}, {3, {4, 4}}, {2, {2, 2}}, {4, {6, 5}}, {4, {13, 13}}};
  for (const auto& [warps, stages] : shapes) {
    for (unsigned seed = 0; seed < 1000; ++seed) {
      ASSERT_TRUE(Model(seed, warps, stages).run())
          << warps << " warps, " << stages[0] << " and " << stages[1] << " stages, seed " << seed;
    }
  }
}

TEST(DecodePipe, ParityAloneWouldDeceive) {
  int mistakes = 0;
  for (unsigned seed = 0; seed < 300; ++seed) mistakes += !Model(seed, 4, {6, 6}, false).run();
  EXPECT_GT(mistakes, 0);
}

// If every split began with warp 0, one could be so far ahead of another that parity deceives it.
TEST(DecodePipe, WarpsTakeTurns) {
  int mistakes = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    mistakes += !Model(seed, 4, {4, 4}, true, false).run();
  }
  EXPECT_GT(mistakes, 0);
}

}  // namespace
}  // namespace octavo::backends::cuda
