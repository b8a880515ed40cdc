// SPDX-License-Identifier: Apache-2.0
// The environment, by the rules of huggingface_hub.
#include "files/hub/settings.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "files/hub/hub_server.h"
#include "support/message.h"

namespace transom {
namespace {

using test::message_of;

class Settings : public ::testing::Test {
 protected:
  // Nothing of the environment that the test runs in counts.
  Settings() {
    for (const char* name :
         {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_ENDPOINT", "HF_TOKEN",
          "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_ETAG_TIMEOUT",
          "HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HOME"})
      set(name, nullptr);
    set("HOME", folder_.path().string());
  }
  ~Settings() override {
    for (const auto& [name, value] : before_) {
      if (value) ::setenv(name.c_str(), value->c_str(), 1);
      else ::unsetenv(name.c_str());
    }
  }
  void set(const char* name, const std::optional<std::string>& value) {
    const char* now = std::getenv(name);
    before_.emplace(name, now ? std::optional<std::string>(now) : std::nullopt);
    if (value) ::setenv(name, value->c_str(), 1);
    else ::unsetenv(name);
  }
  void set(const char* name, std::nullptr_t) { set(name, std::optional<std::string>()); }
  static HubSettings settings(const HubOptions& options = {}) { return HubSettings::of(options); }

  test::TemporaryFolder folder_;
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(Settings, FindTheCache) {
  EXPECT_EQ(settings().cache, folder_.path() / ".cache/huggingface/hub");
  set("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(settings().cache, "/xdg/huggingface/hub");
  set("HF_HOME", "~/hf");
  EXPECT_EQ(settings().cache, folder_.path() / "hf/hub");
  set("HUGGINGFACE_HUB_CACHE", "/old");
  EXPECT_EQ(settings().cache, "/old");
  set("HF_HUB_CACHE", "/new");
  EXPECT_EQ(settings().cache, "/new");
  EXPECT_EQ(settings({.cache_dir = "/given"}).cache, "/given");
}

TEST_F(Settings, FindTheToken) {
  EXPECT_EQ(settings().token, "");
  fs::create_directories(folder_.path() / ".cache/huggingface");
  write_file(folder_.path() / ".cache/huggingface/token", " hf_stored \n");
  EXPECT_EQ(settings().token, "hf_stored");
  write_file(folder_.path() / "mine", "hf_mine");
  set("HF_TOKEN_PATH", (folder_.path() / "mine").string());
  EXPECT_EQ(settings().token, "hf_mine");
  set("HF_TOKEN", "hf_set\n");
  EXPECT_EQ(settings().token, "hf_set");
  EXPECT_EQ(settings({.token = "hf_given"}).token, "hf_given");
  set("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
  EXPECT_EQ(settings().token, "");
  const std::string message = message_of([] { settings({.token = "a b"}); });
  EXPECT_NE(message, "");
  EXPECT_EQ(message.find("a b"), message.npos) << "a token is no text for logs";
}

TEST_F(Settings, FindOutWhetherToDownload) {
  EXPECT_EQ(settings().offline, "");
  EXPECT_NE(settings({.local_files_only = true}).offline, "");
  set("TRANSFORMERS_OFFLINE", "true");
  EXPECT_EQ(settings().offline, "TRANSFORMERS_OFFLINE is set");
  set("HF_HUB_OFFLINE", "0");
  EXPECT_EQ(settings().offline, "");
  set("HF_HUB_OFFLINE", "Yes");
  EXPECT_EQ(settings().offline, "HF_HUB_OFFLINE is set");
}

TEST_F(Settings, FindEndpointAndTimes) {
  EXPECT_EQ(settings().endpoint, "https://huggingface.co");
  EXPECT_EQ(settings().download_timeout.count(), 10);
  set("HF_ENDPOINT", "http://mirror:8080/");
  set("HF_HUB_DOWNLOAD_TIMEOUT", "30");
  set("HF_HUB_ETAG_TIMEOUT", "3");
  EXPECT_EQ(settings().endpoint, "http://mirror:8080");
  EXPECT_EQ(settings().download_timeout.count(), 30);
  EXPECT_EQ(settings().metadata_timeout.count(), 3);
  set("HF_HUB_DOWNLOAD_TIMEOUT", "soon");
  EXPECT_NE(message_of([] { settings(); }).find("HF_HUB_DOWNLOAD_TIMEOUT"), std::string::npos);
  set("HF_HUB_DOWNLOAD_TIMEOUT", nullptr);
  for (const char* endpoint : {"mirror", "file:///etc", "http://a b"}) {
    set("HF_ENDPOINT", endpoint);
    EXPECT_NE(message_of([] { settings(); }).find("HF_ENDPOINT"), std::string::npos) << endpoint;
  }
}

TEST_F(Settings, SwitchBarsOff) {
  const HubOptions options{.progress = [](const std::string&, int64_t, int64_t) {}};
  EXPECT_TRUE(settings(options).progress);
  set("HF_HUB_DISABLE_PROGRESS_BARS", "1");
  EXPECT_FALSE(settings(options).progress);
}

}  // namespace
}  // namespace transom
