#include "formats/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/format.h"
#include "gguf_bytes.h"
#include "support/temp_path.h"

namespace octavo::formats {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() { fs::create_directory(folder_); }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  size_t num_entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  const std::string folder_ = testing::temp_path("folder");
};

Status write_text(OutputFile& file, std::string_view text) {
  return file.write(std::as_bytes(std::span(text)));
}

Status write_whole(const std::string& path, std::string_view text) {
  OutputFile file;
  const Status opened = file.open(path);
  if (!opened.ok()) return opened;
  const Status written = write_text(file, text);
  return written.ok() ? file.commit() : written;
}

TEST_F(OutputFileTest, TakesItsNameWhenItIsWhole) {
  OutputFile file;
  ASSERT_TRUE(file.open(at("out")).ok());
  ASSERT_TRUE(write_text(file, "some").ok());
  EXPECT_FALSE(fs::exists(at("out")));
  ASSERT_TRUE(write_text(file, " text").ok());
  ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(read_file(at("out")), "some text");
  EXPECT_EQ(num_entries(), 1u);
}

TEST_F(OutputFileTest, LeavesTheOldFileAndNothingElseWithoutCommit) {
  write_file(at("out"), "old");
  {
    OutputFile file;
    ASSERT_TRUE(file.open(at("out")).ok());
    ASSERT_TRUE(write_text(file, "new").ok());
    EXPECT_EQ(read_file(at("out")), "old");
  }
  EXPECT_EQ(read_file(at("out")), "old");
  EXPECT_EQ(num_entries(), 1u);
}

TEST_F(OutputFileTest, NeverTouchesAFileOfTheTemporaryName) {
  const std::string taken = format("{}.{}-0.partial", at("out"), getpid());
  write_file(taken, "a user's");
  write_file(at("out.partial"), "a user's");
  fs::create_symlink(at("elsewhere"), format("{}.{}-1.partial", at("out"), getpid()));
  ASSERT_TRUE(write_whole(at("out"), "new").ok());
  EXPECT_EQ(read_file(taken), "a user's");
  EXPECT_EQ(read_file(at("out.partial")), "a user's");
  EXPECT_FALSE(fs::exists(at("elsewhere")));
  EXPECT_EQ(read_file(at("out")), "new");
}

TEST_F(OutputFileTest, TwoWritersOfOneFileDoNotMix) {
  OutputFile a;
  OutputFile b;
  ASSERT_TRUE(a.open(at("out")).ok());
  ASSERT_TRUE(b.open(at("out")).ok());
  ASSERT_TRUE(write_text(a, "first").ok());
  ASSERT_TRUE(write_text(b, "second").ok());
  ASSERT_TRUE(a.commit().ok());
  EXPECT_EQ(read_file(at("out")), "first");
  ASSERT_TRUE(b.commit().ok());
  EXPECT_EQ(read_file(at("out")), "second");
}

TEST_F(OutputFileTest, FollowsLinksWhetherTheirTargetExistsOrNot) {
  fs::create_directory(at("data"));
  fs::create_symlink("data/target", at("relative"));
  fs::create_symlink(at("relative"), at("absolute"));
  for (const char* text : {"new", "replaced"}) {
    ASSERT_TRUE(write_whole(at("absolute"), text).ok());
    EXPECT_TRUE(fs::is_symlink(at("absolute")));
    EXPECT_TRUE(fs::is_symlink(at("relative")));
    EXPECT_FALSE(fs::is_symlink(at("data/target")));
    EXPECT_EQ(read_file(at("data/target")), text);
  }
}

TEST_F(OutputFileTest, KeepsThePermissionsOfTheFileItReplaces) {
  write_file(at("out"), "old");
  fs::permissions(at("out"), fs::perms::owner_read | fs::perms::owner_write);
  ASSERT_TRUE(write_whole(at("out"), "new").ok());
  EXPECT_EQ(fs::status(at("out")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(OutputFileTest, WritesIntoPipes) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_TRUE(write_whole(format("/dev/fd/{}", ends[1]), "through").ok());
  char text[16] = {};
  EXPECT_EQ(read(ends[0], text, sizeof(text)), 7);
  EXPECT_STREQ(text, "through");
  close(ends[0]);
  close(ends[1]);
}

// As a shell does for `> file` and `>> file`.
TEST_F(OutputFileTest, AddsToWhatStandardOutputIs) {
  write_file(at("log"), "before ");
  std::FILE* const log = std::fopen(at("log").c_str(), "ae");
  ASSERT_NE(log, nullptr);
  ASSERT_TRUE(write_whole(format("/dev/fd/{}", fileno(log)), "after").ok());
  std::fclose(log);
  EXPECT_EQ(read_file(at("log")), "before after");
  EXPECT_EQ(num_entries(), 1u);
}

TEST_F(OutputFileTest, ErrorsNameTheFile) {
  const auto expect_refused = [](const std::string& path) {
    const Status status = write_whole(path, "text");
    ASSERT_FALSE(status.ok()) << path;
    EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
  };
  expect_refused(at("no/such/folder"));
  expect_refused(folder_);
  expect_refused("/dev/full");
  fs::create_symlink("circle", at("circle"));
  expect_refused(at("circle"));
  expect_refused(at(std::string(300, 'n')));
}

}  // namespace
}  // namespace octavo::formats
