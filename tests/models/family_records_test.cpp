// SPDX-License-Identifier: Apache-2.0
// What the records of families state, held against tiny models of all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json/json.h"
#include "files/blocks/awq_activations.h"
#include "files/config/config.h"
#include "files/foreign/foreign_layout.h"
#include "models/family.h"
#include "models/loading/maximum_tokens.h"
#include "support/golden_cases.h"
#include "transom/model.h"

namespace transom {
namespace {

static_assert(!std::default_initializable<FamilyProcessors> && !std::default_initializable<FamilyWeights>,
              "a record that says nothing does not compile");

struct TinyFamily {
  std::set<std::string> modules;  // of all its golden models
  std::vector<Config> configurations;
};

// By model_type.
std::map<std::string, TinyFamily> tiny_families() {
  std::map<std::string, TinyFamily> all;
  for (const std::string& name : test::golden_cases_with("expected.safetensors")) {
    const auto model = Model::from_pretrained((test::folder_of_case(name) / "model").string());
    const std::string& architecture = model->architecture();
    for (const Family& family : families()) {
      if (std::none_of(family.architectures.begin(), family.architectures.end(),
                       [&](const Architecture& each) { return each.name == architecture; }))
        continue;
      TinyFamily& tiny = all[family.model_type];
      tiny.configurations.push_back(model->config());
      for (const auto& parameter : model->parameters())
        for (size_t dot = parameter->name.find('.'); dot != std::string::npos; dot = parameter->name.find('.', dot + 1))
          tiny.modules.insert(parameter->name.substr(0, dot));
    }
  }
  return all;
}

bool has_module(const TinyFamily& tiny, const std::string& end) {
  return std::any_of(tiny.modules.begin(), tiny.modules.end(),
                     [&](const std::string& module) { return module == end || module.ends_with("." + end); });
}

TEST(FamilyRecords, NameModulesOfTheirModels) {
  std::map<std::string, TinyFamily> all = tiny_families();
  for (const Family& family : families()) {
    const TinyFamily& tiny = all[family.model_type];
    ASSERT_FALSE(tiny.modules.empty()) << family.model_type;
    for (const std::string& target : *family.weights.lora_targets)
      EXPECT_TRUE(has_module(tiny, target)) << family.model_type << ": lora_targets: " << target;
    for (const LatePart& late : *family.weights.late_parts)
      EXPECT_TRUE(has_module(tiny, late.module.empty() ? late.part : late.module + "." + late.part))
          << family.model_type << ": late_parts: " << late.module << "." << late.part;
    if (const std::string& layer = family.weights.awq_activation->layer; !layer.empty())
      EXPECT_TRUE(has_module(tiny, layer)) << family.model_type << ": awq_activation: " << layer;
  }
}

TEST(FamilyRecords, NameFieldsThatLimitPositions) {
  std::map<std::string, TinyFamily> all = tiny_families();
  for (const Family& family : families())
    for (const Config& config : all[family.model_type].configurations)
      if (config.get_string("model_type", "") == family.model_type)
        EXPECT_EQ(maximum_tokens(config).has_value(), !family.processors.positions->fields.empty())
            << family.model_type;
}

TEST(FamilyRecords, NameClassesOfTheirOwnInOtherFormats) {
  std::map<std::string, int> owners;
  for (const Family& family : families()) {
    const auto count = [&](auto fits) {
      return std::count_if(family.architectures.begin(), family.architectures.end(),
                           [&](const Architecture& architecture) { return fits(architecture.name); });
    };
    if (const auto& gguf = *family.foreign.gguf) {
      EXPECT_EQ(count([&](const std::string& name) { return name == gguf->model_class; }), 1) << family.model_type;
      owners[gguf->architecture] += gguf->told_by.empty() && !gguf->is_told ? 1 : 0;
    }
    std::vector<std::string> endings;
    if (const auto& keras = *family.foreign.keras) endings = keras->without;
    if (const auto& flax = *family.foreign.flax)
      endings.insert(endings.end(), flax->without.begin(), flax->without.end());
    for (const std::string& ending : endings)
      EXPECT_GE(count([&](const std::string& name) { return name.ends_with(ending); }), 1)
          << family.model_type << ": without: " << ending;
  }
  for (const auto& [architecture, number] : owners) EXPECT_EQ(number, 1) << architecture;
}

// Every parameter has a name of its own in each library that has the class.
TEST(FamilyRecords, GiveParametersNamesInOtherLibraries) {
  using Layout = std::vector<ForeignWeight> (*)(const NamedViews&, const ForeignModel&);
  const std::pair<const char*, Layout> libraries[] = {{"keras", keras_weights}, {"flax", flax_weights}};
  std::map<std::string, int> written;
  for (const std::string& name : test::golden_cases_with("expected.safetensors")) {
    const auto model = Model::from_pretrained((test::folder_of_case(name) / "model").string());
    NamedViews views;
    for (const auto& parameter : model->parameters())
      views.emplace_back(parameter->name, TensorView{.dtype = DType::kFloat32, .shape = parameter->value.shape()});
    const std::string type = model->config().get_string("model_type", "");
    for (const auto& [library, weights_of] : libraries) {
      std::vector<ForeignWeight> weights;
      try {
        weights = weights_of(views, {type, model->architecture()});
      } catch (const Error&) {
        continue;  // Transformers has no such class there
      }
      ++written[library];
      std::set<std::string> names;
      for (const ForeignWeight& weight : weights)
        EXPECT_TRUE(names.insert(weight.name).second)
            << library << ": " << model->architecture() << ": " << weight.name;
    }
  }
  EXPECT_GT(written["keras"], 50);
  EXPECT_GT(written["flax"], 40);
}

std::optional<int64_t> limit_of(const char* config) { return maximum_tokens(Config::parse(config, "a test")); }

TEST(FamilyRecords, LimitsAreThoseOfTheFamily) {
  EXPECT_EQ(limit_of(R"({"model_type": "bert", "max_position_embeddings": 512})"), 512);
  EXPECT_EQ(limit_of(R"({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1})"), 512);
  EXPECT_EQ(limit_of(R"({"model_type": "gpt2", "n_positions": 1024})"), 1024);
  EXPECT_EQ(limit_of(R"({"model_type": "whisper", "max_target_positions": 448})"), 448);
  EXPECT_EQ(limit_of(R"({"model_type": "clip", "text_config": {"max_position_embeddings": 77}})"), 77);
  EXPECT_EQ(limit_of(R"({"model_type": "t5", "n_positions": 512})"), std::nullopt);  // relative positions
  EXPECT_EQ(limit_of(R"({"model_type": "unheard-of", "max_position_embeddings": 9})"), 9);
}

TEST(FamilyRecords, ScalesOfAwqStandBehindTheirLayers) {
  EXPECT_EQ(awq_activation_scales("bloom", "transformer.h.0.mlp.dense_h_to_4h"),
            "transformer.h.0.mlp.gelu_impl.scales");
  EXPECT_EQ(awq_activation_scales("bloom", "transformer.h.0.mlp.dense_4h_to_h"), "");
  EXPECT_EQ(awq_activation_scales("llama", "model.layers.0.mlp.gate_proj"), "");
}

}  // namespace
}  // namespace transom
