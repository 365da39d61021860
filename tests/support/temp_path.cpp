#include "support/temp_path.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace octavo::testing {
namespace {

// A new folder, removed with all it holds at the end of scope.
class TempFolder {
 public:
  TempFolder() : path_(::testing::TempDir() + "octavo_test_XXXXXX"), owner_(getpid()) {
    if (mkdtemp(path_.data()) != nullptr) return;
    ADD_FAILURE() << "cannot make a folder like " << path_;
    std::abort();
  }
  ~TempFolder() {
    std::error_code ignored;
    if (getpid() == owner_) std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  pid_t owner_;  // a forked child leaves the folder to its parent
};

}  // namespace

std::string temp_path(const std::string& name) {
  static const TempFolder process_folder;
  std::string folder = process_folder.path();
  if (const auto* info = ::testing::UnitTest::GetInstance()->current_test_info()) {
    std::string test = std::string(info->test_suite_name()) + "." + info->name();
    std::replace(test.begin(), test.end(), '/', '_');
    folder += "/" + test;
    std::filesystem::create_directories(folder);
  }
  return folder + "/" + name;
}

}  // namespace octavo::testing
