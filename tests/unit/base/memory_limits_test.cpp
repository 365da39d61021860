#include "base/memory_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

namespace octavo {
namespace {

constexpr int64_t kMiB = 1 << 20;

// A folder that looks like the mount of control groups.
class CgroupFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "octavo_cgroup_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    mount_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(mount_); }

  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((std::filesystem::path(mount_) / name).parent_path());
    std::ofstream(mount_ + "/" + name) << content << '\n';
  }

  std::string mount_;
};

TEST_F(CgroupFiles, Version2) {
  write("memory.max", "1000");
  write("memory.current", "700");
  EXPECT_EQ(cgroup_memory_left(mount_), 300);
  write("memory.stat", "anon 100\nfile 500\ninactive_file 200\nactive_file 300");
  EXPECT_EQ(cgroup_memory_left(mount_), 500);
  write("memory.current", "1300");
  EXPECT_EQ(cgroup_memory_left(mount_), 0);
  write("memory.max", "max");
  EXPECT_EQ(cgroup_memory_left(mount_), std::numeric_limits<int64_t>::max());
}

TEST_F(CgroupFiles, Version1) {
  write("memory/memory.limit_in_bytes", "5000");
  write("memory/memory.usage_in_bytes", "4000");
  write("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 250");
  EXPECT_EQ(cgroup_memory_left(mount_), 1250);
}

TEST_F(CgroupFiles, NoneAreNoLimit) {
  EXPECT_EQ(cgroup_memory_left(mount_), std::numeric_limits<int64_t>::max());
}

// What /proc says is used, and 100 MiB: most of those are left then. In a process of its own.
void limit_and_exit(decltype(RLIMIT_AS) resource, const char* used_key) {
  std::ifstream status("/proc/self/status");
  int64_t used_kib = -1;
  for (std::string word; used_kib < 0 && status >> word;) {
    if (word == used_key) status >> used_kib;
  }
  const auto most = static_cast<rlim_t>(used_kib * 1024 + 100 * kMiB);
  const rlimit limit{most, RLIM_INFINITY};
  const bool set = used_kib > 0 && setrlimit(resource, &limit) == 0;
  const int64_t left = available_memory_bytes();
  _exit(set && left > 80 * kMiB && left <= 100 * kMiB ? 0 : 1);
}

TEST(MemoryLimits, OfTheProcess) {
  ASSERT_GT(available_memory_bytes(), 200 * kMiB);
  EXPECT_EXIT(limit_and_exit(RLIMIT_AS, "VmSize:"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(limit_and_exit(RLIMIT_DATA, "VmData:"), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace octavo
