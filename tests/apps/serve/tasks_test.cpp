// SPDX-License-Identifier: Apache-2.0
// Hugging Face's inference form: what pipelines give, over HTTP.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "apps/serve/golden_server.h"
#include "base/text/base64.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

using test::Client;
using test::golden_model;
using test::json_of;

class Tasks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!test::has_golden("bert-sequence-classification")) return;
    server_ = test::start_server({.models = {golden_model("bert-sequence-classification", "classes"),
                                             golden_model("bert-masked-lm", "mask"),
                                             golden_model("bert-question-answering", "answers"),
                                             golden_model("bert-token-classification", "tokens"),
                                             golden_model("vit-image-classification", "images"),
                                             golden_model("t5", "writes"), golden_model("depth-anything", "depths")}})
                  .release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override {
    if (!server_) GTEST_SKIP() << "no golden models";
  }
  static Json infer(const std::string& model, const Json& body, int status = 200) {
    Client client(server_->port());
    const test::Answer answer = client.post("/models/" + model, dump_json(body));
    EXPECT_EQ(answer.status, status) << model << answer.body;
    return json_of(answer);
  }
  static inline serve::Server* server_ = nullptr;
};

TEST_F(Tasks, GiveWhatPipelinesGive) {
  const auto expect_same = [&](const std::string& model, const std::string& golden, const std::string& task,
                               const Json& inputs, const Json& parameters) {
    const auto pipeline = make_pipeline(task, golden_model(golden, "").path);
    EXPECT_EQ(infer(model, {{"inputs", inputs}, {"parameters", parameters}}),
              parse_json(dump_json(run_pipeline(*pipeline, inputs, parameters)), "expected"))
        << task;
  };
  expect_same("tokens", "bert-token-classification", "token-classification", "Ann went to Rome",
              {{"aggregation_strategy", "simple"}});
  expect_same("answers", "bert-question-answering", "question-answering",
              {{"question", "who"}, {"context", "ann wrote it"}}, Json::object());
  expect_same("writes", "t5", "text2text-generation", "a cat", {{"max_new_tokens", 5}});
  const Json classes = infer("classes", {{"inputs", "a fine film"}});
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_GE(classes[0].size(), 2u);
  EXPECT_GE(classes[0][0]["score"], classes[0][1]["score"]);
  EXPECT_EQ(infer("classes", {{"inputs", {"a", "b"}}}).size(), 2u);
}

TEST_F(Tasks, RefuseByName) {
  EXPECT_TRUE(infer("classes", {{"inputs", "a"}, {"parameters", {{"nonsense", 1}}}}, 400)["error"].is_string());
  infer("classes", {{"parameters", Json::object()}}, 400);
  infer("classes", {{"inputs", 5}}, 400);
  infer("answers", {{"inputs", "a text alone"}}, 400);
  infer("images", {{"inputs", "http://169.254.169.254/latest"}}, 400);
  infer("images", {{"inputs", "/etc/passwd"}}, 400);
  infer("images", {{"inputs", "file:///etc/passwd"}}, 400);
  const std::string message = infer("images", {{"inputs", "aGVsbG8="}}, 400)["error"].get<std::string>();
  EXPECT_EQ(message.find("/proc"), std::string::npos) << message;
  infer("none", {{"inputs", "a"}}, 404);
}

TEST_F(Tasks, PicturesComeAsBytes) {
  std::filesystem::path picture;
  for (const auto& each : std::filesystem::directory_iterator(test::golden_folder() / "image"))
    if (each.path().extension() == ".png") picture = each.path();
  if (picture.empty()) GTEST_SKIP() << "no picture";
  std::ifstream file(picture, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  Client client(server_->port());
  client.send_request("POST", "/models/images", bytes, "Content-Type: image/png\r\n");
  const test::Answer answer = client.read_answer();
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto pipeline = make_pipeline("image-classification", golden_model("vit-image-classification", "").path, {},
                                      {.batch_invariant = true});  // as the server computes
  EXPECT_EQ(json_of(answer),
            parse_json(dump_json(run_pipeline(*pipeline, Json(picture.string()), Json::object())), "expected"));
}

// As JSON with the picture in it, or the picture itself where the client says so.
TEST_F(Tasks, DepthsAreNumbersAndAPicture) {
  const std::string path = (test::golden_folder() / "image/gradient.png").string();
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  Client client(server_->port());
  client.send_request("POST", "/models/depths", bytes, "Content-Type: image/png\r\n");
  const test::Answer answer = client.read_answer();
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto pipeline = make_pipeline("depth-estimation", golden_model("depth-anything", "").path, {},
                                      {.batch_invariant = true});  // as the server computes
  const Json expected = run_pipeline(*pipeline, Json(path), Json::object());
  EXPECT_EQ(json_of(answer), parse_json(dump_json(expected), "expected"));
  client.send_request("POST", "/models/depths", bytes, "Content-Type: image/png\r\nAccept: image/png\r\n");
  const test::Answer picture = client.read_answer();
  EXPECT_EQ(picture.status, 200);
  EXPECT_EQ(picture.body, from_base64(expected["depth"].get<std::string>(), "depth"));
}

TEST_F(Tasks, ModelsTellWhatAPersonFillsIn) {
  Client client(server_->port());
  std::map<std::string, Json> forms;
  const Json models = json_of(client.get("/v1/models"));
  for (const Json& model : models["data"]) forms[model["id"]] = model["form"];
  EXPECT_EQ(forms["depths"], forms["images"]);
  EXPECT_EQ(dump_json(forms["images"]), R"([["file", "Picture", "image", false]])");
  EXPECT_EQ(forms["answers"].size(), 2u);
  EXPECT_EQ(forms["classes"][0][0], "text");
}

TEST_F(Tasks, ClassifiersAsVllmAndTeiAskThem) {
  Client client(server_->port());
  const Json vllm = json_of(client.post("/classify", R"({"model":"classes","input":["a","b"]})"));
  ASSERT_EQ(vllm["data"].size(), 2u);
  double sum = 0;
  for (const Json& each : vllm["data"][0]["probs"]) sum += each.get<double>();
  EXPECT_NEAR(sum, 1, 1e-4);
  EXPECT_EQ(vllm["data"][0]["num_classes"], vllm["data"][0]["probs"].size());
  const Json one = json_of(client.post("/predict", R"({"inputs":"a"})"));
  EXPECT_GE(one[0]["score"], one[1]["score"]);
  const Json batch = json_of(client.post("/predict", R"({"inputs":[["a"],["a","b"]]})"));
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[0], one);
  const Json ranked =
      json_of(client.post("/rerank", R"({"model":"classes","query":"a","texts":["b","c d"],"raw_scores":true})"));
  EXPECT_EQ(ranked.size(), 2u);
  EXPECT_GE(ranked[0]["score"], ranked[1]["score"]);
}

}  // namespace
}  // namespace transom
