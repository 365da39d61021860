// Tokens drawn on the GPU are those of `ref`, whatever the row: ragged vocabularies, ties,
// infinities, NaN, every way to cut, padding that is NaN.
#include <cmath>

#include "tests/gpu/ops_harness.h"

namespace octavo::backends::cuda {
namespace {

using octavo::testing::random_int;

class DrawTokens : public OpsTest {
 protected:
  std::vector<int32_t> draw(const PaddedMat& logits, const std::vector<ops::RowDraw>& draws) {
    const DeviceMat device_logits(logits, DType::kF32);
    const DeviceArray<ops::RowDraw> device_draws(draws);
    const DeviceArray<int32_t> ids(std::vector<int32_t>(draws.size(), -2));
    run([&] { ops().draw_tokens(ctx(), {ids.data(), device_logits, device_draws.data()}); });
    return ids.download();
  }

  static std::vector<int32_t> expected(const PaddedMat& logits,
                                       const std::vector<ops::RowDraw>& draws) {
    ops::ExecContext host;
    std::vector<int32_t> ids(draws.size(), -2);
    ref::draw_tokens(host, {ids.data(), logits, draws.data()});
    return ids;
  }

  ops::RowDraw random_draw() {
    constexpr float kScales[] = {0.5f, 1, 1 / 0.7f, 10};
    ops::RowDraw draw;
    draw.kind = static_cast<ops::DrawKind>(random_int(rng_, 0, 8) == 0 ? 1 : 2);
    draw.scale = kScales[random_int(rng_, 0, 4)];
    if (random_int(rng_, 0, 3) == 0) draw.top_k = static_cast<int32_t>(random_int(rng_, 1, 100));
    if (random_int(rng_, 0, 2) == 0)
      draw.top_p = 1 - 0.999f * static_cast<float>(rng_.next_double());
    if (random_int(rng_, 0, 4) == 0) {
      draw.least = static_cast<float>(std::log(rng_.next_double()));
      draw.least = std::max(draw.least, ops::kLeastScaled);
    }
    draw.share = rng_.next_double();
    return draw;
  }

  void fill(PaddedMat& logits, int64_t row) {
    constexpr float kSpreads[] = {0, 0.1f, 2, 20};
    const float spread = kSpreads[random_int(rng_, 0, 4)];
    const bool ties = random_int(rng_, 0, 2) == 0;
    for (int64_t j = 0; j < logits.mat().cols; ++j) {
      float x = spread * octavo::testing::random_normal(rng_);
      if (ties) x = std::round(4 * x) / 4;
      if (random_int(rng_, 0, 100) == 0) x = random_int(rng_, 0, 2) == 0 ? -INFINITY : -0.0f;
      logits.at(row, j) = x;
    }
    logits.at(row, random_int(rng_, 0, logits.mat().cols)) = 0.5f;
  }

  Rng rng_{1};
};

TEST_F(DrawTokens, AreThoseOfRef) {
  constexpr int64_t kCols[] = {1, 2, 31, 255, 256, 257, 1000, 4097, 32000, 128256, 151936};
  int64_t num_drawn = 0, num_rows = 0;
  for (const int64_t cols : kCols) {
    for (const int64_t rows : {1, 5, 20, 50, 140}) {  // clusters of 8, 8, 4, 2 and 1
      if (rows > 5 && cols > 5000) continue;          // of the oracle, which is slow
      for (int round = 0; round < 4; ++round) {
        PaddedMat logits(rows, cols, round);
        std::vector<ops::RowDraw> draws;
        for (int64_t i = 0; i < rows; ++i) {
          fill(logits, i);
          draws.push_back(random_draw());
        }
        const std::vector<int32_t> wanted = expected(logits, draws);
        const std::vector<int32_t> ids = draw(logits, draws);
        for (size_t i = 0; i < ids.size(); ++i) {
          ++num_rows;
          if (ids[i] == -1) continue;  // more candidates than it has room for
          ++num_drawn;
          ASSERT_EQ(ids[i], wanted[i])
              << rows << " x " << cols << ", row " << i << ": scale " << draws[i].scale
              << ", top_k " << draws[i].top_k << ", top_p " << draws[i].top_p << ", least "
              << draws[i].least;
        }
      }
    }
  }
  EXPECT_GT(num_drawn, num_rows * 9 / 10);
}

// As of models: none of these is left to the host.
TEST_F(DrawTokens, UsualRowsAreAllDrawn) {
  const int64_t rows = 12, cols = 128256;
  PaddedMat logits(rows, cols, 0);
  std::vector<ops::RowDraw> draws(rows);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      logits.at(i, j) = 3 * octavo::testing::random_normal(rng_);
    }
    draws[i] = {ops::DrawKind::kRandom, 0, 1.25f, ops::kLeastScaled, 1, rng_.next_double()};
    if (i % 4 == 1) draws[i].top_k = 50;
    if (i % 4 == 2) draws[i].top_p = 0.9f;
    if (i % 4 == 3) draws[i].least = std::log(0.05f);
  }
  EXPECT_EQ(draw(logits, draws), expected(logits, draws));
}

TEST_F(DrawTokens, SharesAtTheEnds) {
  PaddedMat logits(2, 700, 3);
  for (int64_t j = 0; j < 700; ++j) logits.at(0, j) = logits.at(1, j) = j < 690 ? 0.0f : -200.0f;
  std::vector<ops::RowDraw> draws(2);
  draws[0].kind = draws[1].kind = ops::DrawKind::kRandom;
  draws[1].share = 1 - 0x1p-53;
  EXPECT_EQ(draw(logits, draws), (std::vector<int32_t>{0, 689}));
}

TEST_F(DrawTokens, RowsThatNeedALookHaveNone) {
  const float bad[] = {octavo::testing::kNan, INFINITY, -INFINITY};
  for (const int64_t cols : {1, 300, 9000}) {
    for (int kind = 0; kind < 3; ++kind) {
      for (const int64_t at : {int64_t{0}, cols / 2, cols - 1}) {
        PaddedMat logits(3, cols, 1);
        for (int64_t i = 0; i < 3; ++i) {
          for (int64_t j = 0; j < cols; ++j) {
            logits.at(i, j) = i == 1 && kind == 2 ? -INFINITY : static_cast<float>(j % 7);
          }
        }
        logits.at(1, at) = bad[kind];
        for (int what = 1; what < 3; ++what) {
          std::vector<ops::RowDraw> draws(3);
          for (ops::RowDraw& draw : draws) draw.kind = static_cast<ops::DrawKind>(what);
          const auto ids = draw(logits, draws);
          EXPECT_EQ(ids[1], -1);
          EXPECT_EQ(ids, expected(logits, draws));
        }
      }
    }
  }
}

}  // namespace
}  // namespace octavo::backends::cuda
