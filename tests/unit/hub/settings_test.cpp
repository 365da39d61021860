// What the environment says, and which variable an error blames.
#include "hub/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace octavo::hub {
namespace {

constexpr const char* kVariables[] = {"HF_TOKEN",
                                      "HUGGING_FACE_HUB_TOKEN",
                                      "HF_TOKEN_PATH",
                                      "HF_HOME",
                                      "XDG_CACHE_HOME",
                                      "HF_ENDPOINT",
                                      "HF_HUB_OFFLINE",
                                      "TRANSFORMERS_OFFLINE",
                                      "HF_HUB_CACHE",
                                      "HUGGINGFACE_HUB_CACHE",
                                      "HF_HUB_DOWNLOAD_TIMEOUT"};

// None of them is set but those that a test sets.
class Settings : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }

  static void clear() {
    for (const char* name : kVariables) unsetenv(name);
    setenv("HF_HOME", "/nonexistent", 1);
  }
  static void expect_error(const char* variable, const char* value) {
    setenv(variable, value, 1);
    const auto settings = hub_settings();
    ASSERT_FALSE(settings.ok()) << variable;
    EXPECT_TRUE(settings.status().message().starts_with(variable)) << settings.status().message();
    unsetenv(variable);
  }
};

TEST_F(Settings, ErrorsNameTheVariable) {
  expect_error("HF_TOKEN", "a b");
  expect_error("HUGGING_FACE_HUB_TOKEN", "a\nb");
  expect_error("HF_ENDPOINT", "ftp://hub");
  expect_error("HF_HUB_DOWNLOAD_TIMEOUT", "soon");
  EXPECT_TRUE(hub_settings().ok());
}

TEST_F(Settings, TheFirstNameThatIsSetCounts) {
  setenv("HUGGING_FACE_HUB_TOKEN", "old", 1);
  EXPECT_EQ(hub_settings()->token, "old");
  setenv("HF_TOKEN", " new\n", 1);
  EXPECT_EQ(hub_settings()->token, "new");
  EXPECT_EQ(hub_settings()->cache_folder, "/nonexistent/hub");
  setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
  EXPECT_EQ(hub_settings()->cache_folder, "/old");
  setenv("HF_HUB_CACHE", "/new", 1);
  EXPECT_EQ(hub_settings()->cache_folder, "/new");
  EXPECT_FALSE(hub_settings()->offline);
  setenv("TRANSFORMERS_OFFLINE", "yes", 1);
  EXPECT_TRUE(hub_settings()->offline);
}

}  // namespace
}  // namespace octavo::hub
