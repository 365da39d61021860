// The file of chosen algorithms: what is kept, and that no file can do harm.
#include "backends/matmul_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace octavo::backends {
namespace {

namespace fs = std::filesystem;

const MatmulMachine kMachine = {"NVIDIA H200", 13000, 130100};

MatmulAlgorithm algorithm(uint64_t seed) {
  std::mt19937_64 rng(seed);
  MatmulAlgorithm a;
  for (uint64_t& word : a.code) word = rng();
  a.us = 1.25 + static_cast<double>(seed);
  return a;
}

class MatmulCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("matmul_cache_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    path_ = matmul_cache_path(folder_.string(), kMachine);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string read() const {
    std::ifstream file(path_, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void write(const std::string& text) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
  }
  void fill() const {
    MatmulCache cache(path_, kMachine);
    ASSERT_TRUE(cache.put("bf16 1 x 4096 x 4096", algorithm(1)).ok());
    ASSERT_TRUE(cache.put("f8 128 x 512 x 64 bias", algorithm(2)).ok());
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(MatmulCacheTest, KeepsWhatWasPut) {
  EXPECT_EQ(MatmulCache(path_, kMachine).size(), 0u);
  fill();
  const MatmulCache cache(path_, kMachine);
  EXPECT_EQ(cache.size(), 2u);
  ASSERT_NE(cache.find("bf16 1 x 4096 x 4096"), nullptr);
  EXPECT_EQ(*cache.find("bf16 1 x 4096 x 4096"), algorithm(1));
  EXPECT_EQ(*cache.find("f8 128 x 512 x 64 bias"), algorithm(2));
  EXPECT_EQ(cache.find("bf16 1 x 4096"), nullptr);
  // Nothing but the file is left behind.
  EXPECT_EQ(std::distance(fs::directory_iterator(fs::path(path_).parent_path()), {}), 1);
}

TEST_F(MatmulCacheTest, EachMachineHasItsFile) {
  for (const MatmulMachine& other : {MatmulMachine{"NVIDIA H100", 13000, 130100},
                                     {"NVIDIA H200", 13010, 130100},
                                     {"NVIDIA H200", 13000, 130101}}) {
    EXPECT_NE(matmul_cache_path("x", other), path_);
    fill();
    EXPECT_EQ(MatmulCache(path_, other).size(), 0u);  // copied from another machine
  }
  EXPECT_EQ(matmul_cache_path("", kMachine), "");
  const std::string odd = matmul_cache_path("x", {"../../a b", 1, 2});
  EXPECT_EQ(odd.find(".."), std::string::npos);
}

TEST_F(MatmulCacheTest, WithoutAPathNothingIsWritten) {
  MatmulCache cache("", kMachine);
  EXPECT_TRUE(cache.put("a", algorithm(3)).ok());
  EXPECT_EQ(*cache.find("a"), algorithm(3));
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(MatmulCacheTest, APlaceThatCannotBeWrittenIsAnErrorThatNamesIt) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "cublaslt") << "a file where the folder should be";
  MatmulCache cache(path_, kMachine);
  const Status status = cache.put("a", algorithm(3));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find(path_), std::string::npos) << status.message();
  EXPECT_EQ(*cache.find("a"), algorithm(3));  // this run has it all the same
}

TEST_F(MatmulCacheTest, CorruptFilesAreIgnoredAndReplaced) {
  fill();
  const std::string good = read();
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::string code = good.substr(good.find("\"code\": \"") + 9, 128);
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[1]"), std::string(1 << 12, '['),
        good.substr(0, good.size() / 2), replaced("\"format\": 1", "\"format\": 2"),
        replaced("\"driver\": 13000", "\"driver\": \"13000\""), replaced("products", "product"),
        replaced(code, code.substr(1)), replaced(code, "x" + code.substr(1)),
        replaced("\"us\": ", "\"us\": -"), std::string(5 << 20, ' ')}) {
    write(text);
    MatmulCache cache(path_, kMachine);
    EXPECT_EQ(cache.size(), 0u) << text.substr(0, 200);
    EXPECT_TRUE(cache.put("a", algorithm(4)).ok());
    EXPECT_EQ(MatmulCache(path_, kMachine).size(), 1u);
  }
}

// Whatever happens to the bytes: an entry is found only as it could have been written.
TEST_F(MatmulCacheTest, MutatedFilesDoNoHarm) {
  fill();
  const std::string good = read();
  std::mt19937_64 rng(7);
  for (int round = 0; round < 200; ++round) {
    std::string text = good;
    for (uint64_t i = 0; i <= rng() % 3; ++i) text[rng() % text.size()] = static_cast<char>(rng());
    write(text);
    const MatmulCache cache(path_, kMachine);
    EXPECT_LE(cache.size(), 2u);
    for (const char* key : {"bf16 1 x 4096 x 4096", "f8 128 x 512 x 64 bias"}) {
      const MatmulAlgorithm* found = cache.find(key);
      EXPECT_TRUE(found == nullptr || found->us > 0);
    }
  }
}

}  // namespace
}  // namespace octavo::backends
