// SPDX-License-Identifier: Apache-2.0
// What the records of families state of heads and inputs, held against tiny models of every class and against what
// Transformers says of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "files/config/model_config.h"
#include "models/generative.h"
#include "models/loading/family_names.h"
#include "models/loading/input_names.h"
#include "models/records.h"
#include "support/golden_cases.h"
#include "support/message.h"
#include "support/test_names.h"
#include "tools/bench/workload.h"
#include "transom/gradients.h"
#include "transom/model.h"

namespace transom {
namespace {

constexpr int64_t kHeadRows = 2, kTokens = 12;

Config config_of_case(const std::string& name) { return read_model_config(test::folder_of_case(name) / "model"); }

// The configuration of a case, where its record can say what goes with it: how many times larger than the sample a
// ControlNet's picture is hangs on the length of a list, which is as usual here. RT-DETR's pictures have 640 pixels a
// side where the configuration does not say how many, which takes long.
std::string configuration_of_case(const std::string& name) {
  Json config = parse_json(config_of_case(name).dump(), name);
  if (config.contains("conditioning_embedding_out_channels"))
    config["conditioning_embedding_out_channels"] = {4, 4, 4, 4};
  if (config.contains("anchor_image_size") && config["anchor_image_size"].is_null()) {
    config["anchor_image_size"] = {32, 32};
    config["feat_strides"] = Json::array();
    for (int level = 0; level < config["num_feature_levels"].get<int>(); ++level)
      config["feat_strides"].push_back(4 << level);
  }
  return dump_json(config);
}

// A case of the tree for each class of each record.
std::vector<std::string> cases_of_heads() {
  std::vector<std::string> cases;
  for (const std::string& name : test::golden_cases_with("expected.safetensors"))
    if (!test::is_shared_case(name)) cases.push_back(name);
  return cases;
}

class FamilyHeads : public testing::TestWithParam<std::string> {
 protected:
  FamilyHeads() : model_(Model::from_config(configuration_of_case(GetParam()))) {}

  const FamilyHead& head() const { return head_of(*model_); }
  NamedTensors inputs(bool labels) const {
    BenchOptions options;
    options.batch_size = kHeadRows, options.sequence_length = kTokens;
    return synthetic_inputs(*model_, options, labels);
  }

  std::unique_ptr<Model> model_;
};

// From its configuration alone: the inputs of its record, the outputs of its head.
TEST_P(FamilyHeads, ComputeWhatTheirRecordsSay) {
  if (model_->config().has("axes_dims_rope"))
    GTEST_SKIP() << "no kind of input is the places of patches and of tokens, which the model needs";
  const NoGradient inference;
  const NamedTensors outputs = model_->forward(inputs(false));
  for (const std::string& name : *head().outputs) {
    const Tensor output = outputs.find(name);
    ASSERT_TRUE(output.defined()) << name;
    for (const float value : output.to_vector<float>()) ASSERT_TRUE(std::isfinite(value)) << name;
  }
  // What learns from its input alone says how well at once.
  const bool learns_alone = *head().labels == HeadLabels::kNone && *head().task == HeadTask::kMaskedImage;
  EXPECT_EQ(outputs.find("loss").defined(), learns_alone);
  const Tensor first = outputs.at(head().outputs->front());
  if (!head().vocabulary->empty()) EXPECT_EQ(first.dim(-1), vocabulary_of(model_->config(), head()));
  if (*head().labels == HeadLabels::kClass && *head().task != HeadTask::kSpeaker)
    EXPECT_EQ(first.shape(), (Shape{kHeadRows, class_count(model_->config(), head())}));
  if (*head().labels == HeadLabels::kTokenClasses)
    EXPECT_EQ(first.shape(), (Shape{kHeadRows, kTokens, class_count(model_->config(), head())}));
  if (*head().labels == HeadLabels::kSpan) EXPECT_EQ(first.shape(), (Shape{kHeadRows, kTokens}));
}

TEST_P(FamilyHeads, LearnFromTheirLabels) {
  if (!has_synthetic_labels(*model_)) {
    const std::set<HeadLabels> unknown{HeadLabels::kNone, HeadLabels::kFrameClasses, HeadLabels::kMaskedFrames,
                                       HeadLabels::kSpectrum};
    EXPECT_TRUE(unknown.contains(*head().labels));
    return;
  }
  ForwardContext context{.return_loss = true};
  const Tensor loss = model_->forward(inputs(true), context).find("loss");
  ASSERT_TRUE(loss.defined());
  EXPECT_TRUE(std::isfinite(loss.item<float>()));
  std::vector<Tensor> trained;
  for (const auto& parameter : model_->parameters())
    if (is_of_head(head(), parameter->name)) trained.push_back(parameter->value);
  double slopes = 0;
  for (const Tensor& slope : gradients(loss, trained))
    for (const float value : slope.to_vector<float>()) slopes += std::abs(static_cast<double>(value));
  if (!trained.empty()) EXPECT_GT(slopes, 0);
}

TEST_P(FamilyHeads, TakeTheInputsOfTheirRecords) {
  const std::vector<std::string> taken = input_names_of(*model_);
  for (const FamilyInput& input : inputs_of(*model_)) {
    const bool several = input.kind == FamilyInput::Kind::kCategories;
    EXPECT_NE(std::find(taken.begin(), taken.end(), several ? input.name + ".0" : input.name), taken.end())
        << input.name;
  }
  // What is needed is: without it the model refuses, and names what it lacks.
  const NamedTensors all = inputs(false);
  for (const FamilyInput& input : inputs_of(*model_)) {
    if (!input.needed || input.kind == FamilyInput::Kind::kCategories) continue;
    NamedTensors others;
    for (const auto& [name, tensor] : all.items())
      if (name != input.name) others.set(name, tensor);
    EXPECT_THROW(model_->forward(others), Error) << input.name;
  }
}

// The parameters of a class that its family's classes without a head do not have are those of its head.
TEST_P(FamilyHeads, HoldTheParametersOfTheirModules) {
  const Family& family = *find_family(model_->config());
  std::set<std::string> body;
  for (const Architecture& architecture : family.architectures) {
    if (*architecture.head.task != HeadTask::kBody) continue;
    Config config = model_->config();
    set_field(config, "architectures", Json::array({architecture.name}));
    try {
      const auto bare = Model::from_config(config.dump());
      for (const auto& parameter : bare->parameters()) body.insert(parameter->name);
    } catch (const Error&) {  // a part that this configuration does not describe
    }
  }
  if (body.empty()) GTEST_SKIP() << family.model_type << " has no class without a head";
  for (const auto& parameter : model_->parameters()) {
    const std::vector<std::string> names = names_in_checkpoints(parameter->name, family);
    const bool in_body = std::any_of(names.begin(), names.end(), [&](const auto& name) { return body.contains(name); });
    const bool of_pooler = parameter->name.find("pooler.") != std::string::npos;
    EXPECT_EQ(is_of_head(head(), parameter->name), !in_body || of_pooler) << parameter->name;
  }
}

TEST_P(FamilyHeads, WriteWhereTheirTasksSaySo) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(model_.get());
  const bool writes = writer && writer->can_generate();
  EXPECT_EQ(writes, *head().task == HeadTask::kCausalLM || is_encoder_decoder(head()));
  if (writes) EXPECT_EQ(writer->has_encoder(), is_encoder_decoder(head()));
}

INSTANTIATE_TEST_SUITE_P(All, FamilyHeads, testing::ValuesIn(cases_of_heads()), test::NameOfCase());

TEST(FamilyRecords, HaveACaseForEveryHead) {
  std::set<std::string> seen;
  for (const std::string& name : cases_of_heads())
    seen.insert(Model::from_config(config_of_case(name).dump())->architecture());
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures)
      EXPECT_TRUE(seen.contains(architecture.name)) << architecture.name;
}

// tests/golden/heads.json is what Transformers says.
TEST(FamilyRecords, SayOfHeadsWhatTransformersSays) {
  const Json heads = read_json(test::golden_folder() / "heads.json");
  int64_t layers = 0;
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures) {
      const FamilyHead& head = architecture.head;
      const auto said = heads.find(architecture.name);
      if (said == heads.end()) {
        EXPECT_TRUE(family.model_type == "dlrm" || !family.mark.empty()) << architecture.name;
        continue;
      }
      const std::vector<std::string>& vocabulary = *head.vocabulary;
      if (const Json& layer = said->at("output_layer"); layer.is_string()) {
        ++layers;
        EXPECT_NE(std::find(vocabulary.begin(), vocabulary.end(), layer.get<std::string>()), vocabulary.end())
            << architecture.name << ": " << layer;
      } else {
        EXPECT_TRUE(vocabulary.empty() || *head.labels == HeadLabels::kCharacters) << architecture.name;
      }
      // Trainer counts the labels of all classes that predict tokens, some with the first of a row.
      if (*head.task == HeadTask::kCausalLM)
        EXPECT_EQ(head.divisor == LossDivisor::kOwn, said->at("shifts_labels").get<bool>()) << architecture.name;
      EXPECT_EQ(*head.task == HeadTask::kCausalLM || is_encoder_decoder(head), said->at("writes").get<bool>())
          << architecture.name;
      if (!head.second_label.empty()) EXPECT_EQ(said->at("label_names").back(), head.second_label);
      if (*head.labels == HeadLabels::kSpan) EXPECT_EQ(said->at("label_names").front(), "start_positions");
    }
  EXPECT_EQ(layers, std::count_if(heads.begin(), heads.end(),
                                  [](const Json& head) { return head.at("output_layer").is_string(); }));
}

TEST(FamilyRecords, AreFoundByWhatConfigurationsSay) {
  const auto family_of = [](const char* text) {
    const Family* family = find_family(Config::parse(text, "a test"));
    return family ? family->model_type : "none";
  };
  EXPECT_EQ(family_of(R"({"model_type": "bert"})"), "bert");
  EXPECT_EQ(family_of(R"({"pretrained_cfg": {}})"), "timm_wrapper");
  EXPECT_EQ(family_of(R"({"model_type": "unheard-of", "pretrained_cfg": {}})"), "none");
  EXPECT_EQ(find_architecture("WhisperForConditionalGeneration")->head.begins_as_given, true);
  EXPECT_EQ(find_architecture("LlavaOfNobodyForConditionalGeneration"), nullptr);
  EXPECT_TRUE(recognises_by_writing(*find_family("whisper")));
  EXPECT_FALSE(recognises_by_writing(*find_family("wav2vec2")));
}

TEST(FamilyRecords, SayHowLargeInputsAre) {
  const Config config = Config::parse(
      R"({"image_size": [32, 48], "vision_config": {"image_size": 64}, "widths": [3, 5], "frames": 7, "wrong": "x"})",
      "a test");
  const auto extent = [&](const InputExtent& wanted) { return extent_of(config, wanted); };
  EXPECT_EQ(extent({.name = "", .fields = {"image_size.1"}}), 48);
  EXPECT_EQ(extent({.name = "", .fields = {"vision_config.image_size.1"}}), 64);
  EXPECT_EQ(extent({.name = "", .fields = {"text_config.image_size.0"}}), 32);  // no such part: the whole has it
  EXPECT_EQ(extent({.name = "", .fields = {"widths.0"}}), 3);
  EXPECT_EQ(extent({.name = "", .fields = {"absent", "frames"}, .times = 2}), 14);
  EXPECT_EQ(extent({.name = "", .fields = {"absent"}, .otherwise = 4}), 4);
  EXPECT_EQ(extent({.name = "", .fields = {"absent"}}), std::nullopt);
  EXPECT_EQ(extent({.name = ""}), std::nullopt);
  EXPECT_NE(test::message_of([&] { extent({.name = "", .fields = {"wrong"}}); }).find("wrong: expected a whole number"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
