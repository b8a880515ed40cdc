// SPDX-License-Identifier: Apache-2.0
// The program as a process: two at once, one that is killed, one whose disk is full.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "files/hub/hub_server.h"
#include "support/folders.h"

namespace transom {
namespace {

using test::Fault;
using test::files_below;
using test::HubServer;

class HubProgram : public ::testing::Test {
 protected:
  HubProgram() {
    test::fill(server_);
    std::string& vocabulary = server_.files["vocab.txt"].contents;
    for (int i = 0; i < 20'000; ++i) vocabulary += "word" + std::to_string(i) + "\n";
    write_file(folder_.path() / "in.jsonl", "{\"text\": \"a b word7\"}\n");
  }

  // Starts `transom tokenize` of the model; what it says goes to a file.
  pid_t start(const std::string& outputs, const std::string& before = "") {
    const std::string line =
        before + "exec " + test::build_folder() + "/bin/transom tokenize --tokenizer owner/tiny --inputs " +
        (folder_.path() / "in.jsonl").string() + " --outputs " + (folder_.path() / outputs).string() + " 2> " +
        (folder_.path() / (outputs + ".said")).string();
    std::vector<std::string> environment = {"HF_HUB_CACHE=" + cache_.string(), "HF_ENDPOINT=" + server_.endpoint(),
                                            "HF_HUB_DOWNLOAD_TIMEOUT=2", "no_proxy=127.0.0.1"};
    std::vector<char*> pointers;
    for (std::string& variable : environment) pointers.push_back(variable.data());
    pointers.push_back(nullptr);
    const char* words[] = {"sh", "-c", line.c_str(), nullptr};
    pid_t process = 0;
    EXPECT_EQ(::posix_spawn(&process, "/bin/sh", nullptr, nullptr, const_cast<char**>(words), pointers.data()), 0);
    return process;
  }
  static int status_of(pid_t process) {
    int status = 0;
    ::waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string said(const std::string& outputs) { return read_file(folder_.path() / (outputs + ".said")); }

  test::TemporaryFolder folder_;
  HubServer server_;
  fs::path cache_ = folder_.path() / "hub", blobs_ = cache_ / "models--owner--tiny/blobs";
};

TEST_F(HubProgram, TwoProcessesDownloadOnce) {
  const pid_t one = start("one"), two = start("two");
  EXPECT_EQ(status_of(one), 0) << said("one");
  EXPECT_EQ(status_of(two), 0) << said("two");
  EXPECT_EQ(server_.downloads_of("vocab.txt"), 1);
  EXPECT_NE(read_file(folder_.path() / "one"), "");
  EXPECT_EQ(read_file(folder_.path() / "one"), read_file(folder_.path() / "two"));
}

TEST_F(HubProgram, KilledItLeavesWhatTheNextOneGoesOnWith) {
  server_.faults["vocab.txt"] = {{Fault::kStall, 50'000}};
  const pid_t process = start("one");
  const fs::path incomplete = blobs_ / (server_.etag_of("vocab.txt") + ".incomplete");
  while (!fs::exists(incomplete) || fs::file_size(incomplete) < 50'000)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(process, SIGKILL);
  status_of(process);
  const fs::path snapshot = cache_ / "models--owner--tiny/snapshots" / server_.commit();
  EXPECT_EQ(files_below(snapshot), std::vector<std::string>{"config.json"});
  EXPECT_EQ(files_below(blobs_).size(), 2u);
  EXPECT_FALSE(fs::exists(cache_ / "models--owner--tiny/refs/main"));
  server_.forget();
  EXPECT_EQ(status_of(start("two")), 0) << said("two");
  bool continued = false;
  for (const test::SeenRequest& request : server_.seen()) continued |= request.range == "bytes=50000-";
  EXPECT_TRUE(continued);
  test::expect_same_files(server_, snapshot, {"config.json", "vocab.txt"});
}

TEST_F(HubProgram, SaysThatTheDiskIsFull) {
  // Files of at most 64 KiB, in place of a small disk; the signal that comes with it is switched off.
  EXPECT_EQ(status_of(start("one", "trap '' XFSZ; ulimit -f 64; ")), 1);
  const std::string message = said("one");
  EXPECT_NE(message.find("vocab.txt"), message.npos) << message;
  EXPECT_NE(message.find("make room"), message.npos) << message;
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << message;
  EXPECT_FALSE(fs::exists(folder_.path() / "one"));
  EXPECT_EQ(status_of(start("two")), 0) << said("two");
}

}  // namespace
}  // namespace transom
