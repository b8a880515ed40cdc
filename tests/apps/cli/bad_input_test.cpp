// SPDX-License-Identifier: Apache-2.0
// Bad input from outside: exit status 1 (2 for a wrong call), one line that names what is wrong, no partial output
// file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/files/files.h"
#include "files/checkpoint/safetensors.h"
#include "support/program.h"
#include "support/small_model.h"
#include "support/temporary_folder.h"
#include "support/word_models.h"

namespace transom {
namespace {

using test::kWordBert;
using test::Outcome;
using test::Program;
using test::save_word_model;

class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    save_small_model(folder_ / "model");
    write_rows(folder_ / "rows.jsonl", 12);
    write_safetensors(folder_ / "in.safetensors", ids({2, 3, 4}));
  }
  void TearDown() override {
    std::error_code none;
    fs::permissions(folder_, fs::perms::owner_all, none);
  }

  static NamedViews ids(std::vector<int64_t> values, const std::string& name = "input_ids") {
    const auto kept = std::make_shared<const std::vector<int64_t>>(std::move(values));
    return {{name, {DType::kInt64, {1, static_cast<int64_t>(kept->size())}, std::as_bytes(std::span(*kept)), kept}}};
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void expect_line(const std::vector<std::string>& words, int status, const std::vector<std::string>& parts) {
    const Outcome outcome = Program(words, folder_).wait();
    EXPECT_EQ(outcome.status, status) << outcome.error;
    // One line, behind what a run says that it has read.
    const size_t error = outcome.error.find("transom: error: ");
    ASSERT_NE(error, std::string::npos) << outcome.error;
    EXPECT_EQ(outcome.error.find('\n', error), outcome.error.size() - 1) << outcome.error;
    EXPECT_LE(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 2) << outcome.error;
    for (const std::string& part : parts)
      EXPECT_NE(outcome.error.find(part), std::string::npos) << part << " in: " << outcome.error;
    expect_nothing_written();
  }
  void expect_nothing_written() {
    EXPECT_FALSE(fs::exists(folder_ / "out.safetensors"));
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
  void expect_forward(const std::vector<std::string>& parts, const std::vector<std::string>& more = {},
                      int status = 1) {
    std::vector<std::string> words{
        "forward", "--model", path("model"), "--inputs", path("in.safetensors"), "--outputs", path("out.safetensors")};
    words.insert(words.end(), more.begin(), more.end());
    expect_line(words, status, parts);
  }
  void expect_train(int status, const std::vector<std::string>& parts, const std::vector<std::string>& more) {
    std::vector<std::string> words{"train",     "--model_name_or_path", path("model"), "--output_dir", path("o"),
                                   "--do_train"};
    words.insert(words.end(), more.begin(), more.end());
    expect_line(words, status, parts);
  }
  // The model's weights with one change.
  void change_weights(const std::function<void(NamedViews&)>& change) {
    NamedViews tensors = SafetensorsFile::open(folder_ / "model" / "model.safetensors").tensors();
    change(tensors);
    write_safetensors(folder_ / "model" / "model.safetensors", tensors);
  }

  test::TemporaryFolder folder_;
};

TEST_F(BadInput, TruncatedWeights) {
  const fs::path file = folder_ / "model" / "model.safetensors";
  const std::string bytes = read_file(file);
  for (const size_t size : {size_t{0}, size_t{7}, size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    write_file(file, bytes.substr(0, size));
    expect_forward({"model.safetensors"});
  }
}

TEST_F(BadInput, LyingHeader) {
  const fs::path file = folder_ / "model" / "model.safetensors";
  std::string bytes = read_file(file);
  bytes.replace(bytes.find("\"shape\":[16"), 11, "\"shape\":[17");
  write_file(file, bytes);
  expect_forward({"model.safetensors", "tensor '", "needs"});
}

TEST_F(BadInput, WrongShape) {
  change_weights([](NamedViews& tensors) {
    for (auto& [name, view] : tensors)
      if (name == "bert.pooler.dense.weight") view.shape = {8, 32};
  });
  expect_forward({"model.safetensors", "'bert.pooler.dense.weight'", "[8, 32]", "[16, 16]"});
}

TEST_F(BadInput, TensorsOfWhichNoneIsTheModels) {
  change_weights([](NamedViews& tensors) {
    for (auto& [name, view] : tensors) name.insert(0, "other.");
  });
  expect_forward({"model.safetensors", "no tensor of the model", "'bert.", "'other."});
}

TEST_F(BadInput, MissingTensorWithItsNearestName) {
  change_weights([](NamedViews& tensors) {
    for (auto& [name, view] : tensors)
      if (name == "bert.pooler.dense.weight") name = "bert.pooler.dense.wieght";
  });
  // Transformers warns, and gives numbers of a new tensor.
  expect_forward({"bert.pooler.dense.weight", "bert.pooler.dense.wieght", "answers would be random"});
}

TEST_F(BadInput, Configurations) {
  const fs::path file = folder_ / "model" / "config.json";
  const std::string text = read_file(file);
  const auto expect = [&](const std::string& changed, const std::vector<std::string>& parts) {
    write_file(file, changed);
    expect_forward(parts);
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string result = text;
    result.replace(result.find(from), from.size(), to);
    return result;
  };
  expect("", {"config.json", "JSON"});
  expect("[1]", {"config.json", "object"});
  expect(with("\"bert\"", "\"bertt\""), {"config.json", "'bertt'", "did you mean 'bert'?"});
  expect(with("BertForSequenceClassification", "BertForSequenceClasification"),
         {"config.json", "did you mean 'BertForSequenceClassification'?"});
  expect(with("\"hidden_size\": 16", "\"hidden_size\": \"16\""), {"config.json", "hidden_size", "whole number"});
  expect(with("\"num_attention_heads\": 2", "\"num_attention_heads\": 0"), {"num_attention_heads"});
  expect(with("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 4611686018427387904"),
         {"config.json", "num_hidden_layers"});
  expect(with("\"vocab_size\": 40", "\"vocab_size\": 4611686018427387904"), {"shape"});
  expect(with("\"intermediate_size\": 32", "\"intermediate_size\": -32"), {"shape"});
}

TEST_F(BadInput, InputsOfForward) {
  write_safetensors(folder_ / "in.safetensors", ids({2}, "input_id"));
  expect_forward({"'input_id'", "did you mean 'input_ids'?"});
  write_safetensors(folder_ / "in.safetensors", ids({2, 40}));
  expect_forward({"40"});
  write_safetensors(folder_ / "in.safetensors", ids({-1}));
  expect_forward({"-1"});
  write_safetensors(folder_ / "in.safetensors", ids(std::vector<int64_t>(17, 1)));
  expect_forward({"17", "16"});
  write_file(folder_ / "in.safetensors", "");
  expect_forward({"in.safetensors"});
  fs::remove(folder_ / "in.safetensors");
  expect_forward({"in.safetensors", "No such file"});
  fs::create_directories(folder_ / "in.safetensors");
  expect_forward({"in.safetensors", "regular file"});
}

TEST_F(BadInput, UnknownQuantization) { expect_forward({"int7"}, {"--quantization", "int7"}, 2); }
TEST_F(BadInput, GradientsOfQuantizedLayers) {
  expect_forward({"--gradients", "int8"}, {"--quantization", "int8", "--gradients", "g.safetensors"}, 2);
}
TEST_F(BadInput, UnknownType) { expect_forward({"flaot32"}, {"--dtype", "flaot32"}, 2); }

TEST_F(BadInput, OutputThatCannotBeWritten) {
  const auto forward = [&](const std::string& output) {
    return std::vector<std::string>{"forward",   "--model", path("model"), "--inputs", path("in.safetensors"),
                                    "--outputs", output};
  };
  expect_line(forward(path("model")), 1, {path("model"), "directory"});
  expect_line(forward(path("no/such/out")), 1, {path("no/such/out"), "No such file"});
  expect_line(forward("/dev/full"), 1, {"/dev/full", "No space left"});
}

TEST_F(BadInput, NoPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read all";
  fs::permissions(folder_ / "in.safetensors", fs::perms::none);
  expect_forward({"in.safetensors", "Permission denied"});
}

TEST_F(BadInput, RowsOfText) {
  const auto expect = [&](const std::string& name, const std::string& text, const std::vector<std::string>& parts) {
    write_file(folder_ / name, text);
    expect_train(1, parts, {"--train_file", path(name)});
  };
  expect("a.csv", "", {"a.csv", "empty"});
  expect("a.csv", "sentence,label\n", {"a.csv"});
  expect("a.csv", "sentence,label\na,0\n\"open,1\n", {"a.csv: row 2, column 'sentence'", "closing quote"});
  expect("a.csv", "sentence,label\na,0\nb,1,2\n", {"a.csv: row 2", "2 fields"});
  expect("a.csv", "sentence,label\na,0\nb\xff,1\n", {"a.csv: row 2", "UTF-8"});
  expect("a.jsonl", "{\"input_ids\": [1], \"labels\": 0}\n{\"input_ids\": [1\n", {"a.jsonl: row 2"});
  expect("a.jsonl", "{\"input_ids\": [1], \"labels\": 0}\n{\"input_ids\": [\"x\"], \"labels\": 0}\n",
         {"a.jsonl: row 1, column 'input_ids'", "list of texts"});
  expect("a.xyz", "a", {"a.xyz", ".csv"});
  expect_train(1, {"none.csv", "No such file"}, {"--train_file", path("none.csv")});
  expect_train(1, {path("model"), "regular file"}, {"--train_file", path("model")});
}

TEST_F(BadInput, WrongCalls) {
  expect_train(2, {"--learning_rat", "did you mean", "learning_rate"}, {"--learning_rat", "1"});
  expect_train(2, {"learning_rate", "fast"}, {"--learning_rate", "fast"});
  expect_line({"train", "--output_dir", path("o")}, 2, {"--model_name_or_path"});
  expect_line({"trian"}, 2, {"trian"});
  expect_line({"forward", "--model", path("model")}, 2, {"--inputs"});
  expect_line({"forward", "--modle", "x"}, 2, {"--modle"});
}

TEST_F(BadInput, ALossThatIsNoNumber) {
  change_weights([](NamedViews& tensors) {
    static const std::vector<float> huge(2, std::numeric_limits<float>::quiet_NaN());
    for (auto& [name, view] : tensors)
      if (name == "classifier.bias") view.bytes = std::as_bytes(std::span(huge));
  });
  expect_train(1, {"loss", "nan", "step 1"},
               {"--train_file", path("rows.jsonl"), "--logging_nan_inf_filter", "false", "--save_strategy", "no"});
  EXPECT_FALSE(fs::exists(folder_ / "o" / "model.safetensors"));
}

TEST_F(BadInput, ResumingFromNothing) {
  expect_train(1, {"resume_from_checkpoint", "no checkpoint"},
               {"--train_file", path("rows.jsonl"), "--resume_from_checkpoint", "true"});
}

TEST_F(BadInput, LimitsOfTheServer) {
  const auto expect_refused = [&](const std::string& flag, const std::string& value, const std::string& expected) {
    expect_line({"serve", path("model"), "--port", "0", flag, value}, 2, {flag + ": expected " + expected, value});
  };
  expect_refused("--log", "x", "auto, json, none");
  expect_refused("--scheduling_policy", "x", "fcfs, priority");
  expect_refused("--kv_cache_dtype", "x", "auto, float32, float16, bfloat16");
  expect_refused("--max_model_length", "-1", "at least 0");
  for (const char* flag : {"--max_connections", "--max_sequences", "--max_batched_tokens", "--max_client_batch_size"})
    expect_refused(flag, "0", "at least 1");
}

TEST_F(BadInput, AdaptersAndAssistantsWhereNoModelWrites) {
  const std::vector<std::string> serve{"serve", "small=" + path("model"), "--port", "0"};
  const auto with = [&](const std::string& flag, const std::string& value) {
    std::vector<std::string> words = serve;
    words.insert(words.end(), {flag, value});
    return words;
  };
  const std::string found =
      "expected a model that writes text among those that are served, found small "
      "(text-classification)";
  expect_line(with("--lora", "tiny=/none"), 2, {"--lora tiny: " + found});
  expect_line(with("--assistant_model", "/none"), 2, {"--assistant_model: " + found});
}

TEST_F(BadInput, AnswersOfHeadsThatTheCheckpointLacks) {
  save_word_model(folder_, kWordBert, "BertModel");
  const std::string part = "expected the trained weights of BertLMHeadModel, found none of";
  expect_line({"serve", folder_.string(), "--port", "0", "--task", "text-generation"}, 1, {part, "cls.predictions"});
  expect_line({"run", "text-generation", "--model", folder_.string(), "w1"}, 1, {part, "text-generation"});
  expect_line({"run", "text-classification", "--model", folder_.string(), "w1"}, 1, {"classifier.weight"});
}

}  // namespace
}  // namespace transom
