// SPDX-License-Identifier: Apache-2.0
// QLoRA: adapters are trained beside codes as beside the numbers that the codes stand for, and the codes stay.
#include <gtest/gtest.h>

#include "files/blocks/rounded_matrix.h"
#include "models/compression/quantize.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/weights/packed_weights.h"
#include "models/nn/weight.h"
#include "runtime/tensor/evaluate.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/device.h"
#include "transom/ops.h"
#include "work/train/step/train_step.h"

namespace transom {
namespace {

constexpr const char* kLlamaBase = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 12,
  "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.2})";
constexpr const char* kGpt2Base = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 12,
  "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 16, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0,
  "initializer_range": 0.2})";

NamedTensors lora_batch() {
  const Tensor ids = Tensor::from(std::vector<int64_t>{1, 5, 2, 9, 0, 3, 3, 8, 10, 4, 6, 1}, {2, 6});
  return {{"input_ids", ids}, {"labels", ids}};
}

void add_adapters(Model& model, const std::string& base, const std::string& more = "") {
  Adaptation::add(model,
                  AdapterConfig::with(R"({"r": 4, "lora_alpha": 8, "lora_dropout": 0, "target_modules": "all-linear",
                           "base_model_name_or_path": ")" +
                                      base + "\"" + more + "}"),
                  3);
}

std::vector<float> curve(Model& model) {
  TrainingArguments arguments;
  arguments.output_dir = "unused";
  arguments.resolve();
  TrainStep step(model, arguments);
  std::vector<float> losses;
  for (int64_t i = 0; i < 6; ++i) losses.push_back(step({lora_batch()}, 1e-2, i).loss.item<float>());
  return losses;
}

size_t packed_weights(const Model& model) {
  size_t count = 0;
  for (const auto& parameter : model.frozen()) count += parameter->packed != nullptr;
  return count;
}

class QuantizedLora : public testing::Test {
 protected:
  std::string make(const char* config) {
    set_device("cpu");
    const std::string path = (folder_ / "base").string();
    Model::from_config(config, {.seed = 4})->save_pretrained(path);
    return path;
  }
  // A model beside whose codes adapters are trained, against the same with the numbers that the codes stand for.
  void expect_equal_curves(const std::string& path, const LoadOptions& options, size_t layers) {
    const auto coded = Model::from_pretrained(path, options);
    EXPECT_EQ(packed_weights(*coded), layers);
    const std::string numbers = (folder_ / "numbers").string();
    coded->save_pretrained(numbers);  // dequantised
    const auto plain = Model::from_pretrained(numbers);
    add_adapters(*coded, path);
    add_adapters(*plain, numbers);
    EXPECT_EQ(packed_weights(*coded), layers);
    EXPECT_EQ(coded->parameters().size(), plain->parameters().size());
    std::vector<std::vector<std::byte>> codes;
    for (const auto& parameter : coded->frozen())
      if (parameter->packed) codes.push_back(parameter->packed->bytes.to_bytes());
    const std::vector<float> expected = curve(*plain), found = curve(*coded);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-4) << i;
    EXPECT_LT(found.back(), found.front() - 0.05) << "it learns";
    size_t next = 0;
    for (const auto& parameter : coded->frozen()) {
      if (!parameter->packed) continue;
      EXPECT_EQ(parameter->packed->bytes.to_bytes(), codes[next++]) << parameter->name;
    }
  }
  test::TemporaryFolder folder_;
};

TEST_F(QuantizedLora, OverNf4LearnsAsOverTheNumbers) {
  expect_equal_curves(make(kLlamaBase), {.quantization = "nf4"}, 14);
}
TEST_F(QuantizedLora, OverFp4LearnsAsOverTheNumbers) {
  expect_equal_curves(make(kLlamaBase), {.quantization = "fp4"}, 14);
}
TEST_F(QuantizedLora, OverTurnedWeightsLearnsAsOverTheNumbers) {
  expect_equal_curves(make(kGpt2Base), {.quantization = "nf4"}, 8);
}
TEST_F(QuantizedLora, OverCodesOfEightBitsLearnsAsOverTheNumbers) {
  expect_equal_curves(make(kLlamaBase), {.quantization = "int8_channel"}, 14);
}

TEST_F(QuantizedLora, OverTheCodesOfACheckpointLearnsAsOverTheNumbers) {
  const std::string path = make(kLlamaBase);
  for (const char* format : {"gptq", "awq", "compressed-tensors"}) {
    const std::string made = (folder_ / format).string();
    quantize_model(path, made, {.group_size = 32, .format = format});
    expect_equal_curves(made, {}, 14);
  }
  const std::string file = (folder_ / "model.gguf").string();
  quantize_model(path, file, {.format = "gguf", .type = "q4_0"});
  const auto coded = Model::from_pretrained(file);
  EXPECT_GE(packed_weights(*coded), 14u);
  add_adapters(*coded, file);
  const std::vector<float> losses = curve(*coded);
  EXPECT_LT(losses.back(), losses.front() - 0.05);
}

TEST_F(QuantizedLora, AdaptersAreSavedAndContinuedBesideTheCodes) {
  const std::string path = make(kLlamaBase), made = (folder_ / "made").string(), out = (folder_ / "out").string();
  quantize_model(path, made, {.group_size = 32, .format = "gptq"});
  const auto model = Model::from_pretrained(made);
  add_adapters(*model, made);
  curve(*model);
  model->save_pretrained(out);
  const auto logits = [](const Model& m) { return m({{"input_ids", lora_batch().at("input_ids")}}).at("logits"); };
  const auto expected = logits(*model).to_vector<float>();
  const auto kept = Model::from_pretrained(out, {.quantization = "decompressed", .keep_adapters = true});
  EXPECT_EQ(packed_weights(*kept), 14u);
  EXPECT_EQ(logits(*kept).to_vector<float>(), expected);
  const auto merged = logits(*Model::from_pretrained(out)).to_vector<float>();
  for (size_t i = 0; i < merged.size(); ++i) EXPECT_NEAR(merged[i], expected[i], 1e-3);
}

TEST_F(QuantizedLora, AHeadThatIsTrainedWholeBecomesPlain) {
  const std::string path = make(kLlamaBase);
  const std::string file = (folder_ / "model.gguf").string();
  quantize_model(path, file, {.format = "gguf", .type = "q8_0"});
  const auto model = Model::from_pretrained(file);
  const size_t before = packed_weights(*model);
  add_adapters(*model, file, R"(, "modules_to_save": ["lm_head"])");
  EXPECT_EQ(packed_weights(*model), before - 1);
  EXPECT_EQ(model->parameters().size(), 29u);
  const std::vector<float> losses = curve(*model);
  EXPECT_LT(losses.back(), losses.front() - 0.05);
}

TEST(FourBitCodes, AreTheNearestOfTheirNumbers) {
  for (const char* type : {"nf4", "fp4"}) {
    const std::vector<float> values = four_bit_values(type);
    std::vector<float> weights(3 * 70);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = 3 * std::sin(static_cast<float>(i) * 1.3f);
    const PackedMatrix packed = packed_in_blocks(Tensor::from(weights, {3, 70}), values);
    const auto found = dequantised(packed).to_vector<float>();
    for (size_t row = 0; row < 3; ++row)
      for (size_t first : {0, 64}) {
        const size_t end = std::min<size_t>(first + 64, 70);
        float largest = 0;
        for (size_t k = first; k < end; ++k) largest = std::max(largest, std::abs(weights[row * 70 + k]));
        for (size_t k = first; k < end; ++k) {
          float least = 100;
          for (const float value : values) least = std::min(least, std::abs(value * largest - weights[row * 70 + k]));
          EXPECT_NEAR(std::abs(found[row * 70 + k] - weights[row * 70 + k]), least, 1e-6) << type << row << ' ' << k;
        }
      }
  }
}

}  // namespace
}  // namespace transom
