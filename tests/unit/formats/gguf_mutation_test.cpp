// Random damage to valid files: whatever comes out, reading it ends with an answer or an error.
// Meant to run under AddressSanitizer; reads stay inside the bytes of the file, which are copied to
// an allocation of their exact size.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "gguf_bytes.h"

namespace octavo::formats {
namespace {

constexpr int kRounds = 20000;

// A value that tends to break arithmetic.
uint64_t wild_number(Rng& rng) {
  const uint64_t power = uint64_t{1} << (rng.next_u64() % 64);
  switch (rng.next_u64() % 4) {
    case 0:
      return power;
    case 1:
      return power - 1;
    case 2:
      return ~power;
    default:
      return rng.next_u64();
  }
}

void mutate(Rng& rng, std::string& bytes) {
  const int count = 1 + static_cast<int>(rng.next_u64() % 4);
  for (int i = 0; i < count; ++i) {
    const size_t at = rng.next_u64() % bytes.size();
    switch (rng.next_u64() % 4) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (rng.next_u64() % 8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(rng.next_u64());
        break;
      case 2:
        bytes.replace(at, std::min<size_t>(8, bytes.size() - at), raw(wild_number(rng)));
        break;
      default:
        bytes.replace(at, std::min<size_t>(4, bytes.size() - at),
                      raw(static_cast<uint32_t>(rng.next_u64() % 64)));
    }
  }
  if (rng.next_u64() % 8 == 0) bytes.resize(1 + rng.next_u64() % bytes.size());
}

void run(const std::string& valid, uint64_t seed) {
  ASSERT_TRUE(parse_bytes(valid).ok());
  Rng rng(seed);
  int accepted = 0;
  uint64_t sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = valid;
    mutate(rng, bytes);
    const auto checkpoint = parse_bytes(bytes);
    if (!checkpoint.ok()) {
      ASSERT_NE(checkpoint.status().message().find(", at byte "), std::string::npos)
          << checkpoint.status().message();
      continue;
    }
    ++accepted;
    sum += sum_tensor_bytes(**checkpoint);
    for (const TensorInfo& info : (*checkpoint)->tensors()) {
      ASSERT_EQ((*checkpoint)->find(info.name), &info);
      ASSERT_LE(info.offset_bytes + info.size_bytes, static_cast<int64_t>(bytes.size()));
    }
  }
  // Damage to names, values and data is no damage to the container; most other damage is.
  EXPECT_GT(accepted, kRounds / 20);
  EXPECT_LT(accepted, kRounds * 19 / 20);
  EXPECT_GT(sum, 0u);
}

TEST(GgufMutation, SmallFile) {
  run(small_gguf().bytes(), 1);
}

TEST(GgufMutation, EveryType) {
  run(read_file(OCTAVO_TEST_DATA "/gguf/all_types.gguf"), 2);
}

}  // namespace
}  // namespace octavo::formats
