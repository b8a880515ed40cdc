// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/adaptation.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "vocab_size": 20, "n_embd": 16, "n_layer": 2, "n_head": 2,
  "n_positions": 8, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0, "pad_token_id": 0})";
constexpr const char* kBert = R"({"model_type": "bert", "vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 2,
  "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16})";

class Lora : public testing::Test {
 protected:
  // A model in a folder of its own, and the same with adapters.
  std::unique_ptr<Model> base(const char* config, const std::string& task) {
    Model::from_config(config, {.task = task})->save_pretrained((folder_ / "base").string());
    return Model::from_pretrained((folder_ / "base").string());
  }
  std::string fields(const std::string& more) {
    return R"({"base_model_name_or_path": ")" + (folder_ / "base").string() + "\"" + more + "}";
  }
  test::TemporaryFolder folder_;
};

std::vector<float> logits(const Model& model) {
  return model({{"input_ids", Tensor::from(std::vector<int64_t>{5, 6, 7, 8, 9, 10}, {2, 3})}})
      .at("logits")
      .to_vector<float>();
}

// Gives every parameter that is trained other values, as training would.
void shake(Model& model) {
  for (const auto& parameter : model.parameters()) {
    std::vector<float> values = parameter->value.to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] += 0.05f * static_cast<float>(static_cast<int>(i % 7) - 3);
    parameter->value = Tensor::from(values, parameter->value.shape());
  }
}

std::vector<std::string> names_of(const Model& model) {
  std::vector<std::string> names;
  for (const auto& parameter : model.parameters()) names.push_back(parameter->name);
  return names;
}

TEST_F(Lora, NewAdaptersChangeNothing) {
  const auto model = base(kGpt2, "text-generation");
  const std::vector<float> before = logits(*model);
  Adaptation::add(*model, AdapterConfig::with(fields("")), 1);
  EXPECT_EQ(logits(*model), before);
  EXPECT_EQ(names_of(*model), (std::vector<std::string>{"base_model.model.transformer.h.0.attn.c_attn.lora_A.weight",
                                                        "base_model.model.transformer.h.0.attn.c_attn.lora_B.weight",
                                                        "base_model.model.transformer.h.1.attn.c_attn.lora_A.weight",
                                                        "base_model.model.transformer.h.1.attn.c_attn.lora_B.weight"}));
  EXPECT_EQ(model->parameters()[0]->value.shape(), (Shape{8, 16}));
  EXPECT_EQ(model->parameters()[1]->value.shape(), (Shape{48, 8}));
}

TEST_F(Lora, SavedAndLoadedAdaptersGiveTheSameLogitsBesideTheWeightsAndMergedIntoThem) {
  for (const auto& [config, task] : {std::pair(kGpt2, "text-generation"), std::pair(kBert, "fill-mask")}) {
    const auto model = base(config, task);
    const std::vector<float> plain = logits(*model);
    Adaptation::add(*model, AdapterConfig::with(fields(R"(, "target_modules": "all-linear", "r": 3)")), 1);
    shake(*model);
    const std::vector<float> expected = logits(*model);
    EXPECT_NE(expected, plain);
    const std::string adapters = (folder_ / "adapters").string();
    model->save_pretrained(adapters);
    EXPECT_FALSE(fs::exists(folder_ / "adapters/model.safetensors"));

    const auto kept = Model::from_pretrained(adapters, {.keep_adapters = true});
    EXPECT_EQ(logits(*kept), expected);
    EXPECT_EQ(names_of(*kept), names_of(*model));
    const auto merged = Model::from_pretrained(adapters);
    EXPECT_EQ(merged->adaptation(), nullptr);
    const std::vector<float> found = logits(*merged);
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5) << task;
  }
}

TEST_F(Lora, TheHeadIsTrainedWholeAndItsClassesAreFoundAgain) {
  Model::from_config(kBert, {.task = "feature-extraction"})->save_pretrained((folder_ / "base").string());
  LoadOptions options{.task = "text-classification"};
  options.num_labels = 3;
  const auto model = Model::from_pretrained((folder_ / "base").string(), options);
  Adaptation::add(*model, AdapterConfig::with(fields("")), 1);
  EXPECT_EQ(model->adaptation()->config().task_type(), "SEQ_CLS");
  EXPECT_EQ(model->adaptation()->config().modules_to_save(), (std::vector<std::string>{"classifier", "score"}));
  shake(*model);
  const std::vector<float> expected = logits(*model);
  model->save_pretrained((folder_ / "adapters").string());
  const auto file = SafetensorsFile::open(folder_ / "adapters/adapter_model.safetensors");
  EXPECT_NE(file.find("base_model.model.classifier.weight"), nullptr);
  EXPECT_NE(file.find("base_model.model.bert.encoder.layer.1.attention.self.query.lora_B.weight"), nullptr);
  EXPECT_EQ(file.find("base_model.model.bert.encoder.layer.1.attention.self.key.lora_B.weight"), nullptr);
  EXPECT_EQ(logits(*Model::from_pretrained((folder_ / "adapters").string(), {.keep_adapters = true})), expected);
}

TEST_F(Lora, BiasesAreSavedUnderTheNamesOfPeft) {
  const auto model = base(kGpt2, "text-generation");
  Adaptation::add(*model, AdapterConfig::with(fields(R"(, "bias": "all")")), 1);
  model->save_pretrained((folder_ / "adapters").string());
  const auto file = SafetensorsFile::open(folder_ / "adapters/adapter_model.safetensors");
  EXPECT_NE(file.find("base_model.model.transformer.h.0.attn.c_attn.base_layer.bias"), nullptr);
  EXPECT_NE(file.find("base_model.model.transformer.h.0.attn.c_proj.bias"), nullptr);
  shake(*model);
  model->adaptation()->save(folder_ / "adapters");
  EXPECT_EQ(logits(*Model::from_pretrained((folder_ / "adapters").string(), {.keep_adapters = true})), logits(*model));
}

// PEFT takes names in modules_to_save that the model has no module for; a new run is told of them.
TEST_F(Lora, ReadsAdaptersThatNameModulesToSaveInVain) {
  const auto model = base(kGpt2, "text-generation");
  Adaptation::add(*model, AdapterConfig::with(fields("")), 1);
  shake(*model);
  const std::vector<float> expected = logits(*model);
  model->save_pretrained((folder_ / "adapters").string());
  Json config = parse_json(read_file(folder_ / "adapters/adapter_config.json"), "adapter_config.json");
  config["modules_to_save"] = {"nowhere"};
  write_file(folder_ / "adapters/adapter_config.json", dump_json(config));
  EXPECT_EQ(logits(*Model::from_pretrained((folder_ / "adapters").string(), {.keep_adapters = true})), expected);
  const auto other = base(kGpt2, "text-generation");
  EXPECT_NE(test::message_of([&] {
              Adaptation::add(*other, AdapterConfig::with(fields(R"(, "modules_to_save": ["nowhere"])")), 1);
            }).find("the model has no module nowhere"),
            std::string::npos);
}

TEST_F(Lora, RefusesWhatItCannotDoByName) {
  const auto refused = [](const std::string& fields) { return test::message_of([&] { AdapterConfig::with(fields); }); };
  EXPECT_EQ(refused(R"({"use_dora": true, "lora_bias": true})"),
            "the adapters' configuration: lora_bias: expected false beside use_dora, as PEFT has it, found true");
  EXPECT_NE(refused(R"({"peft_type": "BOFT"})").find("peft_type 'BOFT' is not carried out"), std::string::npos);
  EXPECT_EQ(refused(R"({"init_lora_weights": "corda"})"),
            "the adapters' configuration: init_lora_weights = '\"corda\"' is not carried out; true, false, gaussian, "
            "orthogonal, olora, pissa, loftq and eva are");
  const auto model = base(kGpt2, "text-generation");
  EXPECT_EQ(
      test::message_of([&] { Adaptation::add(*model, AdapterConfig::with(R"({"target_modules": ["query"]})"), 1); }),
      "the adapters' configuration: target_modules: expected names of linear layers or tables of vectors, "
      "of which there are c_attn, c_fc, c_proj; found [\"query\"]");
  const test::KeptLog log;
  Adaptation::add(*base(kGpt2, "text-generation"), AdapterConfig::with(R"({"target_modules": ["c_attn", "query"]})"),
                  1);
  EXPECT_TRUE(log.has("target_modules: no module is called 'query'; the others are adapted")) << log.text();
  EXPECT_NE(test::message_of([&] {
              Adaptation::add(*model, AdapterConfig::with(R"({"peft_type": "VERA", "target_modules": ["wte"]})"), 1);
            }).find("'transformer.wte' is none of the linear layers that can have adapters"),
            std::string::npos);
}

TEST(AdapterConfig, FindsModulesAsPeftDoes) {
  const std::string query = "bert.encoder.layer.1.attention.self.query";
  const auto targets = [&](const std::string& fields) { return AdapterConfig::with(fields).targets(query, false); };
  EXPECT_TRUE(targets(R"({"target_modules": ["query"]})"));
  EXPECT_TRUE(targets(R"({"target_modules": ["self.query"]})"));
  EXPECT_FALSE(targets(R"({"target_modules": ["uery"]})"));
  EXPECT_TRUE(targets(R"({"target_modules": ".*\\.layer\\.[01]\\..*query"})"));
  EXPECT_FALSE(targets(R"({"target_modules": "query"})"));  // a pattern is for the whole name
  EXPECT_TRUE(targets(R"({"target_modules": "all-linear"})"));
  EXPECT_FALSE(targets(R"({"target_modules": ["query"], "exclude_modules": ["self.query"]})"));
  EXPECT_FALSE(targets(R"({"target_modules": ["query"], "layers_to_transform": [0, 2]})"));
  EXPECT_TRUE(targets(R"({"target_modules": ["query"], "layers_to_transform": 1, "layers_pattern": "layer"})"));
  EXPECT_FALSE(AdapterConfig::with(R"({"target_modules": "all-linear"})").targets("lm_head", true));
}

TEST(AdapterConfig, RanksAndScalings) {
  const AdapterConfig plain = AdapterConfig::with(
      R"({"r": 4, "lora_alpha": 12, "rank_pattern": {"c_fc": 2}, "alpha_pattern": {"h\\.1\\.mlp\\.c_fc": 10}})");
  EXPECT_EQ(plain.rank("h.0.attn.c_attn"), 4);
  EXPECT_DOUBLE_EQ(plain.scaling("h.0.attn.c_attn"), 3);
  EXPECT_EQ(plain.rank("h.0.mlp.c_fc"), 2);
  EXPECT_DOUBLE_EQ(plain.scaling("h.0.mlp.c_fc"), 6);
  EXPECT_DOUBLE_EQ(plain.scaling("h.1.mlp.c_fc"), 5);
  EXPECT_DOUBLE_EQ(AdapterConfig::with(R"({"r": 16, "lora_alpha": 8, "use_rslora": true})").scaling("q"), 2);
}

}  // namespace
}  // namespace transom
