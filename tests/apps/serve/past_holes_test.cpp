// SPDX-License-Identifier: Apache-2.0
// What went wrong in other servers and is the subject of no other test; docs/guide/serving.md says where the rest is.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "apps/serve/golden_server.h"
#include "base/text/base64.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::golden_model;

class PastHoles : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const char* name : {"llama-lm", "mpnet-model", "vit-image-classification"})
      if (!test::has_golden(name)) return;
    server_ = test::start_server({.models = {golden_model("llama-lm", "chat"), golden_model("mpnet-model", "embed"),
                                             golden_model("vit-image-classification", "images")}})
                  .release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override {
    if (!server_) GTEST_SKIP() << "no golden models";
  }
  static Answer post(const std::string& path, const Json& body) {
    return Client(server_->port()).post(path, dump_json(body));
  }
  static void expect_all_well() {
    EXPECT_EQ(Client(server_->port()).get("/health").status, 200);
    EXPECT_EQ(post("/v1/completions", {{"model", "chat"}, {"prompt", "the cat"}, {"max_tokens", 2}}).status, 200);
  }
  static inline serve::Server* server_ = nullptr;
};

std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

// A BMP file that says this size, with as many bytes of pixels as are given.
std::string picture_of(uint32_t width, uint32_t height, size_t bytes) {
  const std::string pixels(bytes, '\x7f');
  return "BM" + little_endian(54 + bytes, 4) + little_endian(0, 4) + little_endian(54, 4) + little_endian(40, 4) +
         little_endian(width, 4) + little_endian(height, 4) + little_endian(1, 2) + little_endian(24, 2) +
         little_endian(0, 24) + pixels;
}

// CVE-2026-22773: a picture of one pixel ended the engine. Others declared more pixels than any memory holds.
TEST_F(PastHoles, PicturesOfAnySize) {
  const auto send = [](const std::string& picture) { return post("/models/images", {{"inputs", to_base64(picture)}}); };
  EXPECT_EQ(send(picture_of(1, 1, 4)).status, 200);
  EXPECT_EQ(send(picture_of(1, 3000, 4 * 3000)).status, 200);
  EXPECT_EQ(send(picture_of(3000, 1, 9000)).status, 200);
  for (const auto& [width, height] : {std::pair(60'000u, 60'000u), std::pair(0u, 0u), std::pair(0x7fffffffu, 2u),
                                      std::pair(0xffffffffu, 0x80000000u), std::pair(64u, 64u)}) {
    const Answer answer = send(picture_of(width, height, 16));
    EXPECT_EQ(answer.status, 400) << width << " x " << height << ": " << answer.body;
  }
  expect_all_well();
}

// A word without end, for which merges of pairs or searches for the longest piece may take the square of its length.
TEST_F(PastHoles, LongWordsTakeNoLongTime) {
  for (const std::string& text : {std::string(1 << 20, 'a'), std::string(1 << 19, '\xc2'), std::string(1 << 19, ' ')}) {
    std::string word = text;
    if (word[0] == '\xc2')
      for (size_t i = 1; i < word.size(); i += 2) word[i] = '\xb5';
    for (const char* model : {"chat", "embed"}) {
      const Answer answer = model == std::string("chat")
                                ? post("/v1/completions", {{"model", model}, {"prompt", word}, {"max_tokens", 1}})
                                : post("/v1/embeddings", {{"model", model}, {"input", word}});
      EXPECT_TRUE(answer.status == 400 || answer.status == 200) << answer.body.substr(0, 300);
    }
  }
  expect_all_well();
}

// CVE-2024-37032: a name that leads out of the folder of models.
TEST_F(PastHoles, NamesAreNoPaths) {
  for (const char* name :
       {"../../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "chat/../embed", "%2e%2e"}) {
    EXPECT_EQ(Client(server_->port()).get(std::string("/v1/models/") + name).status, 404) << name;
    const Answer answer = post("/v1/completions", {{"model", name}, {"prompt", "a"}});
    EXPECT_EQ(answer.status, 404) << name << answer.body;
    EXPECT_EQ(post(std::string("/models/") + name, {{"inputs", "a"}}).status, 404) << name;
  }
}

// CVE-2024-37032, -2024-12886, -2026-7482, -2026-5530: models that are made, fetched or deleted over HTTP.
TEST_F(PastHoles, NothingIsManagedOverHttp) {
  for (const char* path : {"/api/pull", "/api/create", "/api/push", "/api/copy", "/api/delete", "/api/blobs/sha256:0",
                           "/v1/load_lora_adapter", "/v1/files", "/sleep", "/reset_prefix_cache", "/shutdown"})
    EXPECT_EQ(post(path, {{"model", "chat"}, {"name", "x"}, {"path", "/etc"}}).status, 404) << path;
  expect_all_well();
}

// CVE-2026-44223: penalties beside drafts. CVE-2026-21869: a negative count led to a write outside.
TEST_F(PastHoles, NumbersAtTheirEnds) {
  const Json asked{{"model", "chat"}, {"prompt", "the cat the cat the cat"}, {"max_tokens", 8}};
  for (const char* field : {"presence_penalty", "frequency_penalty", "repetition_penalty"})
    for (const double value : {2.0, 0.5}) {
      Json body = asked;
      body[field] = value, body["logit_bias"] = {{"5", -100}};
      EXPECT_EQ(post("/v1/completions", body).status, 200) << field;
    }
  for (const char* field : {"n", "max_tokens", "best_of", "logprobs", "prompt_logprobs", "min_tokens", "top_k", "seed",
                            "truncate_prompt_tokens"})
    for (const Json& value : {Json(INT64_MIN), Json(-2147483649LL), Json(UINT64_MAX), Json(1e300)}) {
      Json body = asked;
      body[field] = value;
      const int status = post("/v1/completions", body).status;
      EXPECT_TRUE(status == 400 || status == 200) << field << " " << value.dump() << ": " << status;
    }
  expect_all_well();
}

// No answer to a broken request tells where files lie or what the program's parts are called.
TEST_F(PastHoles, ErrorsTellNothingOfTheInside) {
  const std::string folder = golden_model("llama-lm", "").path;
  for (const auto& [path, body] :
       {std::pair<std::string, std::string>("/v1/completions", R"({"model":"chat","prompt":[99999999]})"),
        {"/v1/completions", R"({"model":"chat","prompt":{"a":1}})"},
        {"/v1/chat/completions", R"({"model":"chat","messages":[{"role":"user","content":[{"type":"x"}]}]})"},
        {"/v1/chat/completions", R"({"model":"chat","messages":[{"role":"tool","content":[1]}]})"},
        {"/v1/embeddings", R"({"model":"chat","input":"a"})"},
        {"/v1/audio/transcriptions", "{}"},
        {"/models/images", R"({"inputs":"aGVsbG8="})"},
        {"/models/embed", R"({"inputs":[[[]]]})"}}) {
    const Answer answer = Client(server_->port()).post(path, body);
    EXPECT_GE(answer.status, 400) << path;
    EXPECT_LT(answer.status, 500) << path << answer.body;
    for (const std::string& word : {folder, std::string("/proc/"), std::string(".cpp"), std::string("transom::"),
                                    std::string("std::"), std::string("0x")})
      EXPECT_EQ(answer.body.find(word), std::string::npos) << path << answer.body;
  }
}

// CVE-2025-32444, -29783, -47277: other ports than that of the interface, on which pickles were read.
TEST_F(PastHoles, OnlyOnePortListens) {
  std::set<std::string> own;  // inodes of this process's sockets
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(each.path(), error).string();
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  int listening = 0;
  for (const char* name : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(name);
    std::string line;
    for (std::getline(file, line); std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, skipped, inode;
      words >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> skipped;
      words >> inode;
      if (state == "0A" && own.contains(inode)) {
        ++listening;
        EXPECT_EQ(std::stoi(local.substr(local.find(':') + 1), nullptr, 16), server_->port());
      }
    }
  }
  EXPECT_EQ(listening, 1);
}

}  // namespace
}  // namespace transom
