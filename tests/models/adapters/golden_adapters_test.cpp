// SPDX-License-Identifier: Apache-2.0
// Each kind of PEFT's adapters against what PEFT made of it (tests/golden/make/adapters.py): ten updates, what is saved
// behind them, and what a directory of PEFT computes, kept beside the weights and merged into them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "models/loading/adapters/adaptation.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "support/test_names.h"
#include "transom/device.h"
#include "transom/generation.h"
#include "transom/ops.h"
#include "work/train/step/train_step.h"

namespace transom {
namespace {

constexpr int64_t kVirtualTokens = 3;  // of all cases that have some
constexpr double kRate = 5e-3;

fs::path golden_adapters() { return test::golden_folder() / "adapters"; }

std::vector<std::string> cases_of_adapters() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden_adapters()))
    if (fs::exists(entry.path() / "curve.json")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Tensor tensor_of(const SafetensorsFile& file, const std::string& name) {
  const TensorView* view = file.find(name);
  return Tensor::from_bytes(view->bytes, {view->dtype, view->shape});
}

class GoldenAdapters : public testing::TestWithParam<std::string> {
 protected:
  fs::path folder() const { return golden_adapters() / GetParam(); }
  bool is_encoder() const { return GetParam().ends_with("-encoder"); }
  std::vector<NamedTensors> batches() const {
    const auto file =
        SafetensorsFile::open(golden_adapters() / (is_encoder() ? "classes" : "tokens") += ".safetensors");
    std::vector<NamedTensors> all;
    for (int64_t i = 0; i < 10; ++i) {
      NamedTensors batch;
      for (const char* name : {"input_ids", "attention_mask", "labels"})
        batch.set(name, squeeze(slice(tensor_of(file, name), 0, i, i + 1), 0));
      all.push_back(batch);
    }
    return all;
  }
  // PEFT's, without what stands for virtual tokens.
  std::vector<float> expected_logits() const {
    const Tensor logits = tensor_of(SafetensorsFile::open(folder() / "logits.safetensors"), "logits");
    const bool more = logits.rank() == 3 && logits.dim(1) > 7;
    return (more ? slice(logits, 1, kVirtualTokens, logits.dim(1)) : logits).to_vector<float>();
  }
  std::vector<float> logits_of(const Model& model) const {
    const NoGradient inference;
    const NamedTensors batch = batches()[0];
    return model({{"input_ids", batch.at("input_ids")}, {"attention_mask", batch.at("attention_mask")}})
        .at("logits")
        .to_vector<float>();
  }
  // Rows of padding are nobody's: what decoders give there differs where a mask hides all keys.
  void expect_logits(const Model& model, float bound) const {
    const std::vector<float> expected = expected_logits(), found = logits_of(model);
    ASSERT_EQ(found.size(), expected.size());
    const std::vector<int64_t> mask = batches()[0].at("attention_mask").to_vector<int64_t>();
    const size_t width = is_encoder() ? 3 : expected.size() / mask.size();
    for (size_t i = 0; i < found.size(); ++i)
      if (is_encoder() || mask[i / width] != 0) ASSERT_NEAR(found[i], expected[i], bound) << i;
  }
};

void train_as_recorded(Model& model, const std::vector<NamedTensors>& batches, const Json& curve) {
  TrainingArguments arguments;
  arguments.output_dir = "unused";
  arguments.max_grad_norm = 0;
  arguments.resolve();
  TrainStep step(model, arguments, /*counts_labels=*/false);
  const double relative = curve.at("relative");
  for (size_t i = 0; i < batches.size(); ++i) {
    const TrainStep::Result result = step({batches[i]}, kRate, static_cast<int64_t>(i));
    const double loss = curve.at("loss")[i], norm = curve.at("gradient_norm")[i];
    EXPECT_NEAR(result.loss.item<float>(), loss, relative * loss) << "update " << i;
    EXPECT_NEAR(result.gradient_norm.item<float>(), norm, relative * norm) << "update " << i;
  }
}

TEST_P(GoldenAdapters, StepsAreThoseOfPeft) {
  set_device("cpu");
  const auto model = Model::from_pretrained((folder() / "initial").string(), {.keep_adapters = true});
  ASSERT_NE(model->adaptation(), nullptr);
  train_as_recorded(*model, batches(), read_json(folder() / "curve.json"));
  const test::TemporaryFolder saved;
  model->save_pretrained(saved.path().string());
  const auto found = SafetensorsFile::open(saved.path() / "adapter_model.safetensors");
  const auto expected = SafetensorsFile::open(folder() / "trained/adapter_model.safetensors");
  // Numbers near zero have updates of any sign: Adam divides by their size.
  constexpr float kBound = 2e-4F;
  size_t read = 0;
  for (const auto& [name, view] : expected.tensors()) {
    // PEFT's copies of what is not trained, and of rows that a head shares.
    if (name.find(".base_layer.weight") != name.npos || name == "base_model.model.lm_head.trainable_tokens_delta")
      continue;
    ++read;
    ASSERT_NE(found.find(name), nullptr) << name;
    ASSERT_EQ(found.find(name)->shape, view.shape) << name;
    const auto numbers = tensor_of(found, name).to_vector<float>(),
               known = tensor_of(expected, name).to_vector<float>();
    // What is added to all keys changes no attention: its gradient is rounding alone.
    const bool has_keys = name.find("c_attn") != name.npos && name.ends_with("bias");
    for (size_t i = 0; i < numbers.size(); ++i)
      if (!has_keys || i / 16 != 1) ASSERT_NEAR(numbers[i], known[i], kBound) << name << ' ' << i;
  }
  EXPECT_EQ(found.tensors().size(), read);
  expect_logits(*model, 2e-3F);
}

TEST_P(GoldenAdapters, DirectoriesOfPeftComputeTheSame) {
  const std::string trained = (folder() / "trained").string();
  expect_logits(*Model::from_pretrained(trained, {.keep_adapters = true}), 5e-5F);
  const auto merged = Model::from_pretrained(trained);
  expect_logits(*merged, 5e-5F);
  const std::string type = read_json(folder() / "trained/adapter_config.json").at("peft_type");
  const bool stays = !find_adapter_kind(type)->unmerged.empty() || GetParam() == "lora-bias-of-b-decoder";
  EXPECT_EQ(merged->adaptation() != nullptr, stays);
}

TEST_P(GoldenAdapters, WriteTheTokensOfPeft) {
  const Json curve = read_json(folder() / "curve.json");
  if (!curve.contains("written")) GTEST_SKIP() << "it writes nothing";
  const auto model = Model::from_pretrained((folder() / "trained").string());
  const std::vector<int64_t> prompt = curve.at("written")[0], expected = curve.at("written")[1];
  GenerationConfig config;
  config.max_new_tokens = static_cast<int64_t>(expected.size());
  config.min_new_tokens = static_cast<int64_t>(expected.size());
  config.pad_token_id = 0;
  config.eos_token_id = {2};
  const NamedTensors inputs{{"input_ids", Tensor::from(prompt, {1, static_cast<int64_t>(prompt.size())})}};
  const TokenIds all = generate(*model, inputs, config).sequences.at(0);
  ASSERT_EQ(all.size(), prompt.size() + expected.size());
  EXPECT_EQ(std::vector<int64_t>(all.begin() + static_cast<ptrdiff_t>(prompt.size()), all.end()), expected);
}

// What stands in for the rest of a run: training that stops and goes on has the steps of one that does not.
TEST_P(GoldenAdapters, TrainingGoesOnFromWhatIsSaved) {
  const std::vector<NamedTensors> all = batches();
  const test::TemporaryFolder saved;
  const auto model = Model::from_pretrained((folder() / "initial").string(), {.keep_adapters = true});
  model->save_pretrained(saved.path().string());
  Json config = read_json(saved.path() / "adapter_config.json");
  config["base_model_name_or_path"] = (golden_adapters() / GetParam().substr(GetParam().rfind('-') + 1)).string();
  write_file(saved.path() / "adapter_config.json", dump_json(config));
  const auto again = Model::from_pretrained(saved.path().string(), {.keep_adapters = true});
  ASSERT_EQ(again->parameters().size(), model->parameters().size());
  for (size_t i = 0; i < again->parameters().size(); ++i) {
    EXPECT_EQ(again->parameters()[i]->name, model->parameters()[i]->name);
    EXPECT_EQ(again->parameters()[i]->value.to_bytes(), model->parameters()[i]->value.to_bytes());
  }
  EXPECT_EQ(logits_of(*again), logits_of(*model));
}

// The updates of AdaLoRA's importances leave nothing behind that later gradients meet: in parts of a batch, and where a
// class divides its loss by a count of its own.
TEST(Adalora, GoesOnInPartsOfABatch) {
  const auto model = Model::from_pretrained((golden_adapters() / "tied").string());
  Adaptation::add(*model,
                  AdapterConfig::with(R"({"peft_type": "ADALORA", "init_r": 4, "target_r": 2, "total_step": 4})"), 1);
  TrainingArguments arguments;
  arguments.output_dir = "unused";
  arguments.resolve();
  TrainStep step(*model, arguments);
  const auto file = SafetensorsFile::open(golden_adapters() / "tokens.safetensors");
  std::vector<NamedTensors> parts;
  for (int64_t i = 0; i < 2; ++i) {
    NamedTensors part;
    for (const char* name : {"input_ids", "attention_mask", "labels"})
      part.set(name, squeeze(slice(tensor_of(file, name), 0, i, i + 1), 0));
    parts.push_back(part);
  }
  float first = 0, last = 0;
  for (int64_t i = 0; i < 4; ++i) {
    last = step(parts, 2e-2, i).loss.item<float>();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, first);
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenAdapters, testing::ValuesIn(cases_of_adapters()), test::NameOfCase());

}  // namespace
}  // namespace transom
