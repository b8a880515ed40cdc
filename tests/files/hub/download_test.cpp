// SPDX-License-Identifier: Apache-2.0
// Servers that break off, stall and lie.
#include <gtest/gtest.h>

#include "files/hub/hub_server.h"
#include "files/hub/resolve.h"
#include "support/message.h"

namespace transom {
namespace {

using test::Fault;
using test::files_below;
using test::HubServer;
using test::message_of;

constexpr const char* kFile = "model.safetensors";

class Download : public ::testing::Test {
 protected:
  Download() {
    test::fill(server_);
    settings_ = server_.settings(folder_.path());
  }
  void expect_complete() {
    test::expect_same_files(server_, resolve_from_hub(HubServer::kId, settings_, true),
                            {"config.json", "vocab.txt", kFile});
    for (const std::string& blob : blobs()) EXPECT_FALSE(blob.ends_with(".incomplete")) << blob;
  }
  std::string failure() {
    const std::string message = message_of([&] { resolve_from_hub(HubServer::kId, settings_, true); });
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    EXPECT_FALSE(fs::exists(model() / "snapshots" / server_.commit() / kFile));
    EXPECT_FALSE(fs::exists(model() / "blobs" / server_.etag_of(kFile)));
    EXPECT_FALSE(fs::exists(model() / "refs/main"));
    return message;
  }
  // The Range headers of the requests that reached the storage.
  std::vector<std::string> ranges() const {
    std::vector<std::string> result;
    for (const test::SeenRequest& request : server_.seen())
      if (request.storage) result.push_back(request.range);
    return result;
  }
  fs::path model() const { return folder_.path() / "models--owner--tiny"; }
  std::vector<std::string> blobs() const { return files_below(model() / "blobs"); }
  fs::path incomplete() const { return model() / "blobs" / (server_.etag_of(kFile) + ".incomplete"); }

  test::TemporaryFolder folder_;
  HubServer server_;
  HubSettings settings_;
};

TEST_F(Download, GoesOnWhereTheConnectionBrokeOff) {
  server_.faults[kFile] = {{Fault::kBreakOff, 30'000}, {Fault::kBreakOff, 70'000}};
  expect_complete();
  EXPECT_EQ(ranges(), (std::vector<std::string>{"", "bytes=30000-", "bytes=70000-"}));
}

TEST_F(Download, GoesOnWhereTheServerStalled) {
  server_.faults[kFile] = {{Fault::kStall, 50'000}};
  expect_complete();
  EXPECT_EQ(ranges(), (std::vector<std::string>{"", "bytes=50000-"}));
}

TEST_F(Download, GoesOnInAnotherRun) {
  server_.faults[kFile] = {5, {Fault::kBreakOff, 40'000}};
  EXPECT_NE(failure().find("run again to go on"), std::string::npos);
  EXPECT_EQ(fs::file_size(incomplete()), 40'000u);
  server_.forget();
  expect_complete();
  EXPECT_EQ(ranges(), (std::vector<std::string>{"bytes=40000-"}));
}

TEST_F(Download, BeginsAnewWhereRangesAreIgnored) {
  server_.faults[kFile] = {{Fault::kBreakOff, 30'000}, {Fault::kIgnoreRange}};
  expect_complete();
  EXPECT_EQ(ranges().size(), 2u);
}

TEST_F(Download, BeginsAnewWhereAnotherRangeComes) {
  server_.faults[kFile] = {{Fault::kBreakOff, 30'000}, {Fault::kOtherRange, 10'000}};
  expect_complete();
  EXPECT_EQ(ranges(), (std::vector<std::string>{"", "bytes=30000-", ""}));
}

TEST_F(Download, BeginsAnewWhereWhatWasThereIsWrong) {
  fs::create_directories(model() / "blobs");
  write_file(incomplete(), std::string(1000, 'x'));
  expect_complete();
  EXPECT_EQ(ranges(), (std::vector<std::string>{"bytes=1000-", ""}));
}

TEST_F(Download, BeginsAnewWhereWhatWasThereIsTooLong) {
  fs::create_directories(model() / "blobs");
  write_file(incomplete(), std::string(200'000, 'x'));
  expect_complete();
}

TEST_F(Download, TakesWhatIsThereWhereItIsWhole) {
  fs::create_directories(model() / "blobs");
  write_file(incomplete(), server_.files[kFile].contents);
  expect_complete();
  EXPECT_EQ(ranges().size(), 0u);
}

TEST_F(Download, DiscardsWhatDoesNotHaveTheHash) {
  server_.faults[kFile] = {{Fault::kCorrupt, 99'999}};
  expect_complete();
  fs::remove_all(model());
  server_.faults[kFile] = {2, {Fault::kCorrupt, 5}};
  EXPECT_NE(failure().find("SHA-256"), std::string::npos);
  EXPECT_FALSE(fs::exists(incomplete()));
  fs::remove_all(model());
  server_.faults["config.json"] = {2, {Fault::kCorrupt, 5}};
  EXPECT_NE(failure().find("SHA-1"), std::string::npos);
}

TEST_F(Download, RefusesWhatIsLongerThanAnnounced) {
  server_.faults[kFile] = {5, {Fault::kLonger}};
  EXPECT_NE(failure().find("more than the 100000 bytes"), std::string::npos);
}

TEST_F(Download, RefusesWhatIsShorterThanAnnounced) {
  server_.intercept = [this](const httplib::Request& request, httplib::Response& response) {
    if (request.path != "/store/model.safetensors") return false;
    response.set_content(server_.files[kFile].contents.substr(0, 10), "application/octet-stream");
    response.status = 200;
    return true;
  };
  EXPECT_NE(failure().find("expected 100000 bytes, found 10"), std::string::npos);
}

TEST_F(Download, TriesAgainWhereTheServerIsInTrouble) {
  server_.faults[kFile] = {{Fault::kStatus, 500}, {Fault::kStatus, 429}, {Fault::kStatus, 503}};
  std::atomic<int> troubles = 4;
  server_.intercept = [&](const httplib::Request& request, httplib::Response& response) {
    if (request.method != "HEAD" || troubles-- <= 0) return false;
    response.status = 502;
    return true;
  };
  expect_complete();
}

TEST_F(Download, GivesUpOnAServerThatStaysInTrouble) {
  server_.intercept = [](const httplib::Request& request, httplib::Response& response) {
    response.status = 500;
    return request.method == "HEAD";
  };
  EXPECT_NE(failure().find("HTTP 500"), std::string::npos);
}

TEST_F(Download, DoesNotTryAgainWhereItIsRefused) {
  server_.faults[kFile] = {{Fault::kStatus, 403}};
  EXPECT_NE(failure().find("HTTP 403"), std::string::npos);
  EXPECT_EQ(ranges().size(), 1u);
}

TEST_F(Download, DoesNotMixTwoVersionsOfAFile) {
  server_.faults[kFile] = {{Fault::kBreakOff, 30'000}};
  std::atomic<int> count = 0;
  server_.intercept = [&](const httplib::Request& request, httplib::Response&) {
    // Between the question what the file is and the second request for its contents it becomes another.
    if (request.method == "GET" && request.path.ends_with(kFile) &&
        request.path.find("/resolve/") != std::string::npos && ++count == 2)
      server_.files[kFile].contents = test::random_bytes(90'000);
    return false;
  };
  const fs::path snapshot = resolve_from_hub(HubServer::kId, settings_, true);
  test::expect_same_files(server_, snapshot, {kFile});
  EXPECT_EQ(fs::read_symlink(snapshot / kFile), "../../blobs/" + server_.etag_of(kFile));
  EXPECT_GE(count, 3);
}

TEST_F(Download, AnEmptyFileIsAFile) {
  server_.files["added_tokens.json"] = {""};
  const fs::path snapshot = resolve_from_hub(HubServer::kId, settings_, true);
  EXPECT_EQ(fs::file_size(snapshot / "added_tokens.json"), 0u);
}

TEST_F(Download, TwoAtOnceDownloadOnce) {
  server_.faults[kFile] = {{Fault::kBreakOff, 50'000}};
  std::vector<std::thread> threads;
  std::vector<std::string> messages(4);
  for (std::string& message : messages)
    threads.emplace_back([&] { message = message_of([&] { resolve_from_hub(HubServer::kId, settings_, true); }); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(messages, std::vector<std::string>(4));
  expect_complete();
  EXPECT_EQ(server_.downloads_of(kFile), 2);  // the one that broke off, and its continuation
  EXPECT_EQ(server_.downloads_of("config.json"), 1);
}

TEST_F(Download, TellsHowFarItIs) {
  std::vector<int64_t> seen;
  settings_.progress = [&](const std::string& file, int64_t done, int64_t total) {
    if (file != kFile) return;
    EXPECT_EQ(total, 100'000);
    seen.push_back(done);
  };
  server_.faults[kFile] = {{Fault::kBreakOff, 30'000}};
  expect_complete();
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), 100'000);
}

}  // namespace
}  // namespace transom
