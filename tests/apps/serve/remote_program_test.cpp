// SPDX-License-Identifier: Apache-2.0
// transom run and generate with --server: what they print is what they print with the model in their own process.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "apps/cli/program.h"
#include "apps/serve/golden_server.h"
#include "base/json/json.h"
#include "support/word_models.h"

namespace transom {
namespace {

class RemoteProgram : public testing::Test {
 protected:
  void SetUp() override {
    test::save_word_model(folder_, test::kWordGpt2, "",
                          R"({"chat_template": "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}"})");
    start({});
  }
  void start(std::vector<std::string> keys) {
    serve::ServeOptions options{.models = {{"words", folder_.string()}}};
    options.api_keys = std::move(keys);
    server_ = test::start_server(options);
  }
  std::string there() const { return " --server http://127.0.0.1:" + std::to_string(server_->port()) + " "; }
  std::string here() const { return " --device cpu --model " + folder_.string() + " "; }
  static std::string output_of(const std::string& arguments) {
    const test::CommandOutcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return outcome.output;
  }
  // Without spaces: where a text goes on with a word, a pipeline drops the space in front of it, and a stream does not.
  static std::string words_of(const std::string& arguments) {
    std::string output = output_of(arguments);
    std::erase(output, ' ');
    return output;
  }
  test::TemporaryFolder folder_;
  std::unique_ptr<serve::Server> server_;
};

TEST_F(RemoteProgram, WritesWhatTheModelWrites) {
  for (const std::string options : {"'w3 w4' --max_new_tokens 5", "w5 --max_new_tokens 3 --repetition_penalty 1.5",
                                    "w3 --max_new_tokens 6 --do_sample --seed 7 --top_k 5 --temperature 0.8",
                                    "w3 w3 w4 --max_new_tokens 6 --do_sample --seed 7 --json",
                                    "'w3 w4' w6 --max_new_tokens 4 --json", "w3 --max_new_tokens 6 --num_beams 4",
                                    "w3 --max_new_tokens 6 --num_beams 4 --num_return_sequences 3 "
                                    "--length_penalty 2 --early_stopping true",
                                    "--messages '[{\"role\": \"user\", \"content\": \"w3 w4\"}]' --max_new_tokens 4"})
    EXPECT_EQ(words_of("generate " + options + there()), words_of("generate " + options + here())) << options;
  // The first model, or one by its name.
  EXPECT_EQ(output_of("generate w3 --max_new_tokens 4 --model words" + there()),
            output_of("generate w3 --max_new_tokens 4" + there()));
}

TEST_F(RemoteProgram, HealthSaysWhetherItAnswers) {
  const std::string url = "http://127.0.0.1:" + std::to_string(server_->port());
  EXPECT_EQ(output_of("health " + url), "");
  expect_one_line(run("health " + url + "/nowhere"), 1, "/nowhere/health: expected status 200, found 404");
  expect_one_line(run("health " + url + " --timeout 0"), 2, "--timeout: expected seconds from 0 to 3600, found 0");
  server_.reset();
  expect_one_line(run("health " + url), 1, url + "/health: ");
}

TEST_F(RemoteProgram, AsksForWhatTheCheckpointSays) {
  const std::string plain = words_of("generate w3 --max_new_tokens 12" + here());
  for (const std::string checkpoint :
       {R"({"do_sample": true, "temperature": 1.4, "top_k": 7})", R"({"do_sample": true, "top_p": 0.8, "seed": 3})",
        R"({"max_new_tokens": 9, "repetition_penalty": 1.7})", R"({"max_length": 11})",
        R"({"min_length": 6, "eos_token_id": [1, 2, 5, 7], "max_length": 20})",
        R"({"eos_token_id": 4, "no_repeat_ngram_size": 1, "max_new_tokens": 8})", R"({"num_beams": 3})"}) {
    write_file(folder_ / "generation_config.json", checkpoint);
    start({});
    for (const std::string options : {"w3", "'w3 w4' --seed 11", "w5 --max_new_tokens 12 --do_sample false",
                                      "--messages '[{\"role\": \"user\", \"content\": \"w3 w4\"}]'"})
      EXPECT_EQ(words_of("generate " + options + there()), words_of("generate " + options + here()))
          << checkpoint << ": " << options;
  }
  write_file(folder_ / "generation_config.json", R"({"do_sample": true, "temperature": 1.9})");
  start({});
  EXPECT_NE(words_of("generate w3 --max_new_tokens 12 --seed 2" + there()), plain);
}

TEST_F(RemoteProgram, EndsWhereGenerateEnds) {
  const std::string text = output_of("generate w3 --max_new_tokens 12" + here());
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  ASSERT_GE(words.size(), 6u) << text;
  // In the middle of a token, over two of them, and at a token that ends texts.
  for (const std::string& end :
       {"--stop_strings " + words[3].substr(0, 1), "--stop_strings '" + words[3].substr(1) + " w'",
        "--eos_token_id " + words[4].substr(1), std::string("--eos_token_id '[10, 11]'")})
    for (const std::string more : {"", " --num_beams 3", " --json"}) {
      const std::string options = "generate w3 --max_new_tokens 12 " + end + more;
      EXPECT_EQ(words_of(options + there()), words_of(options + here())) << options;
    }
}

TEST_F(RemoteProgram, RefusesWhatIsOfThisProcess) {
  for (const std::string flag :
       {"--device cpu", "--mode eager", "--dtype bfloat16", "--quantization int8", "--activations float32",
        "--revision old", "--token a", "--cache_dir a", "--local_files_only", "--assistant_model a"}) {
    expect_one_line(run("generate w3 " + flag + there()), 2, flag.substr(0, flag.find(' ')));
    if (flag.starts_with("--assistant")) continue;
    expect_one_line(run("run text-generation w3 " + flag + there()), 2, flag.substr(0, flag.find(' ')));
  }
}

// A model that is for another task answers too, but something else.
TEST_F(RemoteProgram, AModelForAnotherTaskIsRefused) {
  for (const std::string task : {"text-classification", "fill-mask", "token-classification", "summarization"}) {
    expect_one_line(run("run " + task + " w3 --model words" + there()), 1,
                    "the model 'words' is for text-generation and has no " + task);
    expect_one_line(run("run " + task + " w3" + there()), 1, "no model of this server has " + task);
  }
  expect_one_line(run("run feature-extraction w3 --pooling auto --model words" + there()), 1,
                  "has no feature-extraction");
  expect_one_line(run("run sentiment-analysis w3 --model words" + there()), 1, "has no text-classification");
  EXPECT_FALSE(output_of("run text-generation w3 --max_new_tokens 2 --model words" + there()).empty());
}

TEST_F(RemoteProgram, NamesWhatTheServerRefuses) {
  expect_one_line(run("generate w3 --model other" + there()), 1, "the model 'other' does not exist");
  expect_one_line(run("generate w3 --no_repeat_ngram_size 2" + there()), 2, "--no_repeat_ngram_size");
  expect_one_line(run("generate w3 --server http://127.0.0.1:1"), 1, "http://127.0.0.1:1");
  expect_one_line(run("generate w3 --server ftp://a"), 2, "--server");
  expect_one_line(run("generate w3"), 2, "--model is missing");
  expect_one_line(run("run text-classification w3"), 2, "--model is missing");
  expect_one_line(run("generate w3 --api_key a" + here()), 2, "--api_key");
  start({"secret"});
  expect_one_line(run("generate w3" + there()), 1, "401");
  EXPECT_FALSE(output_of("generate w3 --api_key secret" + there()).empty());
}

// Whether two results are the same but for the last digits of numbers: a server computes each input as if it were
// alone.
bool near(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return std::abs(a.get<double>() - b.get<double>()) < 1e-5;
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (!a.is_structured()) return a == b;
  for (const auto& [key, value] : a.items()) {
    if (a.is_object() && !b.contains(key)) return false;
    if (!near(value, a.is_object() ? b[key] : b[std::stoul(key)])) return false;
  }
  return true;
}

// Each task in the form in which its pipeline prints it.
TEST(RemotePipeline, AnswersAsThePipelineDoes) {
  struct Case {
    std::string model, task, arguments;
  };
  const std::vector<Case> cases{
      {"bert-sequence-classification", "text-classification", "'a cat sat' 'b'"},
      {"bert-sequence-classification", "text-classification", "'a cat sat'"},
      {"bert-sequence-classification", "text-classification", "'a cat sat' --top_k 2"},
      {"bert-token-classification", "token-classification", "'a cat sat'"},
      {"bert-masked-lm", "fill-mask", "'a [MASK] sat' --top_k 3"},
      {"bert-question-answering", "question-answering", "--question who --context 'a cat sat'"},
      {"mpnet-model", "feature-extraction", "'a cat' 'two' --pooling auto"},
      {"mpnet-model", "feature-extraction", "'a cat' --pooling auto"},
  };
  for (const Case& each : cases) {
    if (!test::has_golden(each.model)) continue;
    const serve::ModelSource source = test::golden_model(each.model, "model");
    const auto server = test::start_server({.models = {source}, .task = each.task});
    const std::string call = "run " + each.task + " " + each.arguments + " --json";
    const test::CommandOutcome there = run(call + " --server http://127.0.0.1:" + std::to_string(server->port()));
    const test::CommandOutcome here = run(call + " --device cpu --model " + source.path);
    ASSERT_EQ(here.status, 0) << here.output;
    ASSERT_EQ(there.status, 0) << there.output;
    EXPECT_TRUE(near(parse_json(there.output, "there"), parse_json(here.output, "here")))
        << each.task << ": " << there.output << here.output;
  }
}

}  // namespace
}  // namespace transom
