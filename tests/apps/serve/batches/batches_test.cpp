// SPDX-License-Identifier: Apache-2.0
// Batches of requests: as OpenAI's clients ask for them, and over the end of a server.
#include "apps/serve/batches/batches.h"

#include <gtest/gtest.h>

#include <thread>

#include "apps/serve/api/api_error.h"
#include "apps/serve/golden_server.h"
#include "base/files/files.h"
#include "support/temporary_folder.h"
#include "support/word_models.h"

namespace transom {
namespace {

using serve::Batches;
using test::Answer;
using test::Client;
using test::json_of;

std::string line_of(const std::string& id, const Json& body, const std::string& url = "/v1/completions") {
  return dump_json({{"custom_id", id}, {"method", "POST"}, {"url", url}, {"body", body}}) + "\n";
}

// The lines of a file by their custom_id.
std::map<std::string, Json> lines_of(const std::string& content) {
  std::map<std::string, Json> lines;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = content.find('\n', begin);
    const Json line = parse_json(content.substr(begin, end - begin), "line");
    EXPECT_TRUE(lines.emplace(line["custom_id"], line).second) << "twice: " << line["custom_id"];
    begin = end + 1;
  }
  return lines;
}

template <typename State>
Json wait_for(const State& state, const std::string& status) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  Json batch;
  do {
    batch = state();
    if (batch["status"] == status) return batch;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (std::chrono::steady_clock::now() < until);
  ADD_FAILURE() << "expected " << status << ", found " << dump_json(batch);
  return batch;
}

class BatchesOverHttp : public testing::Test {
 protected:
  BatchesOverHttp() {
    test::save_word_model(model_, test::kWordGpt2);
    serve::ServeOptions options{.models = {{"words", model_.string()}}};
    options.batch_folder = (folder_ / "batches").string();
    server_ = test::start_server(options);
  }
  Answer get(const std::string& path) const { return Client(server_->port()).get(path); }
  Answer post(const std::string& path, const Json& body) const {
    return Client(server_->port()).post(path, dump_json(body));
  }
  Answer upload(const std::string& content, const std::string& purpose = "batch") const {
    const std::string body = "--border\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n" + purpose +
                             "\r\n--border\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n"
                             "Content-Type: application/octet-stream\r\n\r\n" +
                             content + "\r\n--border--\r\n";
    Client client(server_->port());
    client.send_request("POST", "/v1/files", body, "Content-Type: multipart/form-data; boundary=border\r\n");
    return client.read_answer();
  }
  Json create(const std::string& content, const std::string& endpoint = "/v1/completions") const {
    const Answer file = upload(content);
    EXPECT_EQ(file.status, 200) << file.body;
    const Answer batch = post("/v1/batches", {{"input_file_id", json_of(file)["id"]},
                                              {"endpoint", endpoint},
                                              {"completion_window", "24h"},
                                              {"metadata", {{"owner", "test"}}}});
    EXPECT_EQ(batch.status, 200) << batch.body;
    return json_of(batch);
  }
  Json ended(const Json& batch, const std::string& status) const {
    return wait_for([&] { return json_of(get("/v1/batches/" + batch["id"].get<std::string>())); }, status);
  }
  std::map<std::string, Json> file(const Json& id) const {
    const Answer answer = get("/v1/files/" + id.get<std::string>() + "/content");
    EXPECT_EQ(answer.status, 200) << answer.body;
    return lines_of(answer.body);
  }
  test::TemporaryFolder model_, folder_;
  std::unique_ptr<serve::Server> server_;
};

TEST_F(BatchesOverHttp, GiveWhatRequestsGive) {
  std::string content;
  std::vector<Json> bodies;
  for (int i = 0; i < 24; ++i) {
    bodies.push_back({{"model", "words"},
                      {"prompt", fmt::format("w{} w4 w5", i % 8)},
                      {"max_tokens", 4 + i % 5},
                      {"temperature", 0}});
    content += line_of("row " + std::to_string(i), bodies.back());
  }
  content += line_of("bad", {{"model", "words"}, {"prompt", "w1"}, {"max_tokens", -1}});
  content += line_of("lost", {{"model", "other"}, {"prompt", "w1"}});
  const Json batch = ended(create(content), "completed");
  EXPECT_EQ(batch["request_counts"], (Json{{"total", 26}, {"completed", 24}, {"failed", 2}}));
  EXPECT_EQ(batch["metadata"]["owner"], "test");
  const auto output = file(batch["output_file_id"]), errors = file(batch["error_file_id"]);
  ASSERT_EQ(output.size(), 24u);
  for (size_t i = 0; i < bodies.size(); ++i) {
    const Json& line = output.at("row " + std::to_string(i));
    EXPECT_EQ(line["response"]["status_code"], 200);
    EXPECT_EQ(line["error"], nullptr);
    EXPECT_EQ(line["response"]["body"]["choices"], json_of(post("/v1/completions", bodies[i]))["choices"]) << i;
  }
  EXPECT_EQ(errors.at("bad")["response"]["status_code"], 400);
  EXPECT_EQ(errors.at("lost")["response"]["status_code"], 404);
  // Lists, facts, and the end of a file.
  const Json batches = json_of(get("/v1/batches?limit=1"));
  EXPECT_EQ(batches["data"][0]["id"], batch["id"]);
  EXPECT_EQ(batches["has_more"], false);
  EXPECT_EQ(json_of(get("/v1/files?purpose=batch_output"))["data"].size(), 2u);
  const Json files = json_of(get("/v1/files"))["data"], oldest_first = json_of(get("/v1/files?order=asc"))["data"];
  EXPECT_TRUE(std::equal(files.begin(), files.end(), oldest_first.rbegin(), oldest_first.rend()));
  const std::string path = "/v1/files/" + batch["output_file_id"].get<std::string>();
  EXPECT_EQ(json_of(get(path))["filename"], batch["id"].get<std::string>() + "_output.jsonl");
  Client client(server_->port());
  client.send_request("DELETE", path);
  EXPECT_EQ(json_of(client.read_answer())["deleted"], true);
  EXPECT_EQ(get(path).status, 404);
}

TEST_F(BatchesOverHttp, RefuseFilesByTheirLines) {
  const Json body{{"model", "words"}, {"prompt", "w1"}};
  const std::string content = line_of("a", body) + "{\n" + line_of("a", body) + line_of("b", body, "/v1/embeddings") +
                              line_of("c", {{"prompt", "w1"}, {"stream", true}}) + "[]\n";
  const Json batch = ended(create(content), "failed");
  std::vector<std::pair<int64_t, std::string>> errors;
  for (const Json& error : batch["errors"]["data"]) errors.emplace_back(error["line"], error["code"]);
  EXPECT_EQ(errors, (std::vector<std::pair<int64_t, std::string>>{{2, "invalid_json_line"},
                                                                  {3, "duplicate_custom_id"},
                                                                  {4, "mismatched_endpoint"},
                                                                  {5, "invalid_body"},
                                                                  {6, "invalid_json_line"}}));
  EXPECT_EQ(ended(create(" \n"), "failed")["errors"]["data"][0]["code"], "empty_file");
}

TEST_F(BatchesOverHttp, RefuseWhatTheyDoNotKnow) {
  EXPECT_EQ(upload("x", "fine-tune").status, 400);
  EXPECT_EQ(get("/v1/files/..%2f..%2fetc%2fpasswd").status, 404);
  EXPECT_EQ(get("/v1/files/file-x/content").status, 404);
  EXPECT_EQ(get("/v1/batches/batch_x").status, 404);
  EXPECT_EQ(post("/v1/batches/batch_x/cancel", Json::object()).status, 404);
  EXPECT_EQ(get("/v1/batches?limit=0").status, 400);
  EXPECT_EQ(get("/v1/batches?after=x").status, 400);
  EXPECT_EQ(get("/v1/files?order=up").status, 400);
  const Json file = json_of(upload(line_of("a", {{"prompt", "w1"}})));
  const auto status = [&](const char* endpoint, const char* window) {
    return post("/v1/batches", {{"input_file_id", file["id"]}, {"endpoint", endpoint}, {"completion_window", window}})
        .status;
  };
  EXPECT_EQ(status("/v1/images/generations", "24h"), 400);
  EXPECT_EQ(status("/v1/completions", "1h"), 400);
  EXPECT_EQ(post("/v1/batches", {{"input_file_id", file["id"]},
                                 {"endpoint", "/v1/completions"},
                                 {"completion_window", "24h"},
                                 {"metadata", {{"long", std::string(4096, 'x')}}}})
                .status,
            400);
  EXPECT_EQ(status("/v1/completions", "24h"), 200);
}

// Answers each body with itself, as slowly as it is told.
class Echo : public serve::HttpService {
 public:
  std::optional<serve::HttpResponse> admit(const serve::HttpRequest&, uint64_t&) override { return std::nullopt; }
  serve::HttpResponse refusal(int status, const std::string& reason) override {
    return {.status = status, .body = reason};
  }
  void handle(std::shared_ptr<serve::HttpRequest> request, std::shared_ptr<serve::Responder> responder) override {
    const std::lock_guard lock(mutex_);
    ++asked_[request->body];
    if (held_ && asked_.size() > 10) return waiting_.push_back({request, responder});
    if (full_ && asked_[request->body] == 1) return responder->respond({.status = 429, .body = "{}"});
    if (request->body == too_large_)
      return responder->respond(serve::error_response(serve::api_error_of(std::make_exception_ptr(std::bad_alloc())),
                                                      serve::ErrorForm::kOpenAi));
    responder->respond({.body = request->body});
  }
  void hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    if (held) return;
    for (const auto& [request, responder] : waiting_) responder->respond({.body = request->body});
    waiting_.clear();
  }
  void be_full() { full_ = true; }
  void have_no_memory_for(const std::string& body) { too_large_ = body; }
  size_t asked() const {
    const std::lock_guard lock(mutex_);
    return asked_.size();
  }

 private:
  mutable std::mutex mutex_;
  bool held_ = false, full_ = false;
  std::map<std::string, int> asked_;
  std::string too_large_;
  std::vector<std::pair<std::shared_ptr<serve::HttpRequest>, std::shared_ptr<serve::Responder>>> waiting_;
};

std::string numbered_lines(int count) {
  std::string content;
  for (int i = 0; i < count; ++i) content += line_of(std::to_string(i), {{"number", i}});
  return content;
}

void expect_all_numbers(Batches& batches, const Json& batch, int count) {
  const auto lines = lines_of(batches.files().content(batch["output_file_id"]));
  ASSERT_EQ(lines.size(), static_cast<size_t>(count));
  for (const auto& [id, line] : lines) EXPECT_EQ(line["response"]["body"]["number"], std::stoi(id));
}

TEST(BatchFolder, IsGoneOnWithByTheNextServer) {
  const test::TemporaryFolder folder;
  constexpr int kCount = 100;
  std::string id;
  {
    Echo slow;
    slow.hold(true);
    Batches batches(folder.path(), slow);
    batches.start();
    id = batches.create(batches.files().add("in", "batch", numbered_lines(kCount)).id, "/v1/completions", Json())["id"];
    while (slow.asked() < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    wait_for(
        [&] {
          Json batch = batches.find(id);
          batch["status"] = batch["request_counts"]["completed"] == 10 ? "some" : "few";
          return batch;
        },
        "some");
  }
  // As a server that was killed leaves it: half a line.
  for (const auto& entry : fs::directory_iterator(folder.path()))
    if (entry.path().extension() == ".output") {
      const std::string written = read_file(entry.path());
      write_file(entry.path(), written + "{\"custom_id\": \"50\", \"resp");
    }
  Echo echo;
  Batches batches(folder.path(), echo);
  EXPECT_EQ(batches.find(id)["status"], "in_progress");
  batches.start();
  const Json batch = wait_for([&] { return batches.find(id); }, "completed");
  EXPECT_EQ(echo.asked(), static_cast<size_t>(kCount - 10));
  EXPECT_EQ(batch["request_counts"], (Json{{"total", kCount}, {"completed", kCount}, {"failed", 0}}));
  expect_all_numbers(batches, batch, kCount);
}

TEST(BatchFolder, AsksAFullServerAgain) {
  const test::TemporaryFolder folder;
  Echo echo;
  echo.be_full();
  Batches batches(folder.path(), echo);
  batches.start();
  const Json made =
      batches.create(batches.files().add("in", "batch", numbered_lines(20)).id, "/v1/completions", Json());
  const Json batch = wait_for([&] { return batches.find(made["id"]); }, "completed");
  expect_all_numbers(batches, batch, 20);
}

// Else it would hold up all other batches for a day.
TEST(BatchFolder, GivesUpALineWithoutMemory) {
  const test::TemporaryFolder folder;
  Echo echo;
  echo.have_no_memory_for("{\"number\":3}");
  Batches batches(folder.path(), echo);
  batches.start();
  const Json made = batches.create(batches.files().add("in", "batch", numbered_lines(5)).id, "/v1/completions", Json());
  const Json batch = wait_for([&] { return batches.find(made["id"]); }, "completed");
  EXPECT_EQ(batch["request_counts"], (Json{{"total", 5}, {"completed", 4}, {"failed", 1}}));
  EXPECT_EQ(lines_of(batches.files().content(batch["error_file_id"])).at("3")["response"]["status_code"], 503);
}

TEST(BatchFolder, HasOneServer) {
  const test::TemporaryFolder folder;
  Echo echo;
  const Batches batches(folder.path(), echo);
  EXPECT_THROW(Batches(folder.path(), echo), Error);
}

TEST(BatchFolder, KeepsWhatWasAnsweredBeforeACancellation) {
  const test::TemporaryFolder folder;
  Echo slow;
  slow.hold(true);
  Batches batches(folder.path(), slow);
  batches.start();
  const std::string id =
      batches.create(batches.files().add("in", "batch", numbered_lines(200)).id, "/v1/completions", Json())["id"];
  while (slow.asked() < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(batches.cancel(id)["status"], "cancelling");
  slow.hold(false);
  const Json batch = wait_for([&] { return batches.find(id); }, "cancelled");
  const size_t answered = lines_of(batches.files().content(batch["output_file_id"])).size();
  EXPECT_GE(answered, 20u);
  EXPECT_LT(answered, 200u);
  EXPECT_EQ(batch["request_counts"]["completed"], answered);
  EXPECT_EQ(batch["error_file_id"], nullptr);
  EXPECT_THROW(batches.cancel(id), serve::ApiError);
}

TEST(BatchFolder, LeavesOutWhatIsNotItsOwn) {
  const test::TemporaryFolder folder;
  write_file(folder / "batch_x.json", "{\"id\": \"batch_y\"}");
  write_file(folder / "batch_z.json", "[");
  write_file(folder / "file-a.json", "{\"filename\": \"a\", \"purpose\": 1}");
  Echo echo;
  const Batches batches(folder.path(), echo);
  EXPECT_TRUE(batches.list().empty());
}

}  // namespace
}  // namespace transom
