// SPDX-License-Identifier: Apache-2.0
// An assistant model behind HTTP and on the command line.
#include <gtest/gtest.h>

#include "apps/cli/program.h"
#include "apps/serve/golden_server.h"
#include "support/word_models.h"

namespace transom {
namespace {

using test::Client;
using test::json_of;

class AssistedServer : public testing::Test {
 protected:
  AssistedServer() {
    test::save_word_model(model_, test::kWordGpt2);
    test::save_word_model(assistant_, R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
      "vocab_size": 12, "n_positions": 40, "n_embd": 8, "n_layer": 1, "n_head": 2, "initializer_range": 0.6})");
  }
  std::unique_ptr<serve::Server> start(const std::string& assistant) const {
    serve::ServeOptions options;
    options.models = {{"words", model_.string()}};
    options.assistant_model = assistant;
    options.num_assistant_tokens = 3;
    return test::start_server(options);
  }
  test::TemporaryFolder model_, assistant_;
};

double metric(const serve::Server& server, const std::string& name) {
  const std::string text = Client(server.port()).get("/metrics").body;
  const size_t line = text.find("\n" + name + "{");
  if (line == text.npos) return -1;
  return std::stod(text.substr(text.find('}', line) + 1));
}

TEST_F(AssistedServer, AnswersAsWithoutAndCounts) {
  const auto plain = start(""), assisted = start(assistant_.string());
  for (const Json& fields :
       {Json{{"temperature", 0}}, Json{{"temperature", 1}, {"seed", 5}}, Json{{"temperature", 0}, {"logprobs", 2}},
        Json{{"guided_regex", "(w1|w2)+"}, {"seed", 1}}}) {
    Json body{{"prompt", Json::array({3, 4})}, {"max_tokens", 20}};
    body.update(fields);
    const Json answer = json_of(Client(assisted->port()).post("/v1/completions", dump_json(body)));
    ASSERT_TRUE(answer.contains("choices")) << answer.dump();
    EXPECT_EQ(answer["choices"], json_of(Client(plain->port()).post("/v1/completions", dump_json(body)))["choices"]);
    EXPECT_EQ(answer["usage"]["completion_tokens"], 20) << answer.dump();
  }
  EXPECT_GT(metric(*assisted, "vllm:spec_decode_num_drafts_total"), 0);
  EXPECT_GT(metric(*assisted, "vllm:spec_decode_num_draft_tokens_total"), 0);
  EXPECT_GE(metric(*assisted, "vllm:spec_decode_num_accepted_tokens_total"), 0);
  EXPECT_EQ(metric(*plain, "vllm:spec_decode_num_drafts_total"), 0);
}

TEST_F(AssistedServer, ItsTokensAreThoseOfTheModel) {
  test::TemporaryFolder other;
  test::save_word_model(other, test::kWordGpt2);
  Json tokenizer = parse_json(read_file(other / "tokenizer.json"), "tokenizer");
  tokenizer["model"]["vocab"] = {{"v0", 0}, {"w11", 11}};
  for (int i = 1; i < 11; ++i) tokenizer["model"]["vocab"]["w" + std::to_string(i)] = i;
  write_file(other / "tokenizer.json", dump_json(tokenizer));
  expect_one_line(run("generate w3 --device cpu --model " + model_.string() + " --assistant_model " + other.string()),
                  1, "assistant_model");
}

TEST_F(AssistedServer, TheProgramWritesTheSameText) {
  const std::string call = "generate 'w3 w4' w5 --device cpu --max_new_tokens 25 --model " + model_.string();
  for (const std::string more : {"", " --json", " --do_sample --seed 3", " --stop_strings w7"}) {
    const test::CommandOutcome alone = run(call + more);
    const test::CommandOutcome assisted =
        run(call + more + " --assistant_model " + assistant_.string() + " --num_assistant_tokens 4");
    EXPECT_EQ(assisted.status, 0);
    EXPECT_EQ(assisted.output, alone.output) << more;
  }
  expect_one_line(run(call + " --num_beams 2 --assistant_model " + assistant_.string()), 1, "num_beams");
}

}  // namespace
}  // namespace transom
