// SPDX-License-Identifier: Apache-2.0
// Models from compressed checkpoints: every golden case of theirs, and files written here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/checkpoint.h"
#include "files/config/config.h"
#include "support/gguf_bytes.h"
#include "support/golden.h"
#include "support/golden_values.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/generation.h"
#include "transom/model.h"
#include "transom/tokenizer.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

std::string model_of(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "model.gguf";
  return (std::filesystem::exists(file) ? file : folder / "model").string();
}

std::vector<double> numbers(const Tensor& tensor) { return tensor.to_vector<double>(); }

void expect_near(const std::vector<double>& found, const test::KeptValues& expected, const Json& tolerance) {
  EXPECT_EQ(difference(expected, found, tolerance["atol"], tolerance["rtol"]), "");
}

class CompressedModel : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder = test::folder_of_case(GetParam(), test::GoldenSet::kQuantized);
  Json golden = read_json(folder / "case.json");
  NamedTensors inputs = load_inputs(folder / "inputs.safetensors");
  std::vector<test::KeptValues> outputs = test::golden_values(folder / "expected.safetensors");

  const test::KeptValues* find_output(const std::string& name) const {
    for (const test::KeptValues& each : outputs)
      if (each.name == name) return &each;
    return nullptr;
  }
  const test::KeptValues& expected_logits() const { return *find_output("logits"); }
  std::vector<double> logits(const Model& model) const {
    const NoGradient inference;
    return numbers(model.forward(inputs).at("logits"));
  }
  void expect_continuations(const Model& model, bool rounded) const {
    const Json golden_runs = read_json(folder / "generate.json");
    for (const Json& run : golden_runs["runs"]) {
      if (rounded && !run["same_with_int8_activations"].get<bool>()) continue;
      const auto prompt = run["prompt"].get<TokenIds>();
      GenerationConfig config;
      config.max_new_tokens = run["new_tokens"].get<int64_t>();
      config.pad_token_id = 0;
      const NamedTensors tokens{{"input_ids", Tensor::from(prompt, {1, static_cast<int64_t>(prompt.size())})}};
      EXPECT_EQ(generate(model, tokens, config).sequences[0], run["sequence"].get<TokenIds>());
    }
  }
};

TEST_P(CompressedModel, WithInputsAsTheyAre) {
  LoadReport report;
  const auto model = Model::from_pretrained(model_of(folder), {}, &report);
  EXPECT_EQ(report.missing, std::vector<std::string>{});
  EXPECT_EQ(report.unexpected, std::vector<std::string>{});
  expect_near(logits(*model), expected_logits(), golden["tolerance"]["float32 arithmetic"]);
  expect_continuations(*model, false);
}

TEST_P(CompressedModel, WithInputsOf8Bits) {
  const auto model = Model::from_pretrained(model_of(folder), {.activations = "int8"});
  const std::vector<double> found = logits(*model);
  const test::KeptValues& exact = expected_logits();
  expect_near(found, exact, golden["tolerance"]["int8 activations"]);
  const Json& measured = golden["relative_rms_deviation_with_int8_activations"];
  const double largest = std::max(measured["rows"].get<double>(), measured["blocks of 32"].get<double>());
  EXPECT_LE(relative_error(exact, found), 1.5 * largest);
  if (const test::KeptValues* by_token = find_output("logits_with_quantized_activations")) {
    // Rounded as the checkpoint asks. The largest of a row of K values lies between two steps, at 127.5 of them, and
    // may be rounded to either: one error of a step beside K whose squares are a twelfth of one.
    const double K = static_cast<double>(model->config().get_int("hidden_size"));
    EXPECT_LE(relative_error(*by_token, found), std::sqrt(12 / K) * relative_error(exact, found));
  }
}

// The deviation that rounding to fp8 by rows is known to have; other formats are refused.
TEST_P(CompressedModel, WithInputsOfFloat8) {
  const LoadOptions options{.activations = "float8"};
  if (test::bare_name(GetParam()) == "gguf-llama-f16") GTEST_SKIP() << "it holds no codes";
  if (golden["format"] != "fp8") {
    EXPECT_THROW(Model::from_pretrained(model_of(folder), options), Error);
    return;
  }
  const std::vector<double> found = logits(*Model::from_pretrained(model_of(folder), options));
  const Json& known = golden["relative_deviation_of_the_largest_logit"]["fp8 activations, rows"];
  const double bound = 1.5 * known.get<double>() * golden["largest_logit"].get<double>();
  expect_near(found, expected_logits(), {{"atol", bound}, {"rtol", 0.0}});
}

// What writes text is nearer to the float model than the checkpoint's own rule of w8a8.
TEST_P(CompressedModel, WritesTheSameTextWithInputsOf8Bits) {
  const auto model = Model::from_pretrained(model_of(folder), {.activations = "fastest"});
  expect_continuations(*model, true);
}

TEST_P(CompressedModel, DecompressedIsTheSame) {
  const auto model = Model::from_pretrained(model_of(folder), {.quantization = "decompressed"});
  EXPECT_TRUE(model->frozen().empty());
  expect_near(logits(*model), expected_logits(), golden["tolerance"]["float32 arithmetic"]);
}

TEST_P(CompressedModel, TokenizerOfTheFile) {
  if (!golden.contains("tokenizer")) GTEST_SKIP();
  const Tokenizer tokenizer = Tokenizer::from_pretrained(model_of(folder));
  for (const Json& text : golden["tokenizer"]["texts"]) {
    const std::string words = text["text"];
    const Encoding encoding = tokenizer.encode(words, std::nullopt, {.add_special_tokens = false});
    EXPECT_EQ(std::vector<int64_t>(encoding.ids.begin(), encoding.ids.end()), text["ids"].get<std::vector<int64_t>>())
        << words;
    EXPECT_EQ(tokenizer.decode(text["ids"].get<std::vector<int64_t>>(), false), words);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, CompressedModel,
                         testing::ValuesIn(test::golden_cases("case.json", test::GoldenSet::kQuantized)),
                         test::NameOfCase());

// A model of one layer without a vocabulary of texts.
test::GgufBytes tiny_llama() {
  using test::GgufBytes;
  GgufBytes bytes;
  bytes.text("general.architecture", "llama").number("llama.block_count", 1).number("llama.context_length", 16);
  bytes.number("llama.embedding_length", 32).number("llama.feed_forward_length", 32);
  bytes.number("llama.attention.head_count", 2).floating("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  const auto plain = [&](const char* name, uint64_t rows) {
    std::vector<float> values(rows * 32);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(std::sin(static_cast<double>(i) + static_cast<double>(rows)));
    bytes.tensor(name, rows == 1 ? std::vector<uint64_t>{32} : std::vector<uint64_t>{32, rows}, 0,
                 GgufBytes::floats(values));
  };
  plain("token_embd.weight", 11), plain("output_norm.weight", 1), plain("blk.0.attn_norm.weight", 1),
      plain("blk.0.ffn_norm.weight", 1);
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
    plain((std::string("blk.0.") + name + ".weight").c_str(), 32);
  return bytes;
}

TEST(CompressedFiles, AFileOrItsDirectoryIsAModel) {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "tiny.gguf", tiny_llama().made());
  const auto file = Model::from_pretrained((folder.path() / "tiny.gguf").string()),
             directory = Model::from_pretrained(folder.path().string());
  const NamedTensors tokens{{"input_ids", Tensor::from(std::vector<int64_t>{1, 2, 3}, {1, 3})}};
  const NoGradient inference;
  EXPECT_EQ(numbers(file->forward(tokens).at("logits")), numbers(directory->forward(tokens).at("logits")));
  EXPECT_EQ(file->architecture(), "LlamaForCausalLM");
}

// Two files with one name after each other, and two at once: each gives its own answers.
TEST(CompressedFiles, AReplacedFileIsReadAnew) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "tiny.gguf").string();
  write_file(path, tiny_llama().made());
  EXPECT_EQ(Model::from_pretrained(path)->config().get_int("bos_token_id", -1), -1);
  write_file(path, tiny_llama().number("tokenizer.ggml.bos_token_id", 7).made());
  EXPECT_EQ(Model::from_pretrained(path)->config().get_int("bos_token_id", -1), 7);
}

TEST(CompressedFiles, CodesWithoutAConfigurationAreRefused) {
  const auto model = Model::from_config(
      R"({"model_type":"llama","vocab_size":8,"hidden_size":4,"intermediate_size":4,"num_hidden_layers":1,)"
      R"("num_attention_heads":1,"architectures":["LlamaForCausalLM"]})");
  const test::TemporaryFolder plain, coded;
  model->save_pretrained(plain.string());
  model->save_pretrained(coded.string());
  const Checkpoint checkpoint = Checkpoint::open(plain);
  NamedViews tensors = checkpoint.tensors();
  for (auto& [name, view] : tensors)
    if (name.ends_with("q_proj.weight")) view.dtype = DType::kInt8, view.bytes = view.bytes.first(16);
  save_checkpoint(coded, tensors, 1 << 20);
  EXPECT_NE(test::message_of([&] {
              Model::from_pretrained(coded.string());
            }).find("q_proj.weight' holds codes (i8), of which config.json has no quantization_config"),
            std::string::npos);
}

TEST(CompressedFiles, UnknownArchitecturesAreNamed) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "a.gguf";
  write_file(path, test::GgufBytes().text("general.architecture", "rwkv7").made());
  const std::string message = test::message_of([&] { Model::from_pretrained(path.string()); });
  EXPECT_NE(message.find("'rwkv7' is not supported"), std::string::npos) << message;
}

}  // namespace
}  // namespace transom
