// SPDX-License-Identifier: Apache-2.0
// Adapters that are more than two matrices: DoRA's lengths of rows, biases of B, and matrices that are taken out of the
// weight.
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "base/files/files.h"
#include "files/checkpoint/safetensors.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/adapters/adapter_set.h"
#include "models/loading/adapters/initial/decompositions.h"
#include "models/loading/weights/untied.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/layers.h"
#include "transom/ops.h"
#include "transom/tensor.h"

namespace transom {
namespace {

constexpr const char* kTurnedDecoder =
    R"({"model_type": "gpt2", "vocab_size": 20, "n_embd": 16, "n_layer": 2, "n_head": 2,
  "n_positions": 8, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0, "pad_token_id": 0})";
constexpr const char* kRowDecoder =
    R"({"model_type": "llama", "vocab_size": 20, "hidden_size": 16, "intermediate_size": 24,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16})";

class LoraKinds : public testing::Test {
 protected:
  std::unique_ptr<Model> base(const char* config) {
    Model::from_config(config, {.task = "text-generation"})->save_pretrained((folder_ / "base").string());
    return Model::from_pretrained((folder_ / "base").string());
  }
  AdapterConfig fields(const std::string& more) {
    return AdapterConfig::with(R"({"base_model_name_or_path": ")" + (folder_ / "base").string() + "\", " + more + "}");
  }
  std::string saved(const Model& model) {
    model.save_pretrained((folder_ / "adapters").string());
    return (folder_ / "adapters").string();
  }
  test::TemporaryFolder folder_;
};

std::vector<float> decoder_logits(const Model& model, ForwardContext context = {}) {
  const Tensor ids = Tensor::from(std::vector<int64_t>{5, 6, 7, 8, 9, 10}, {2, 3});
  return model.forward({{"input_ids", ids}}, context).at("logits").to_vector<float>();
}

void expect_all_near(const std::vector<float>& found, const std::vector<float>& expected, float bound = 2e-5f) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], bound) << i;
}

void shake_all(Model& model) {
  for (const auto& parameter : model.parameters()) {
    std::vector<float> values = parameter->value.to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] += 0.05f * static_cast<float>(static_cast<int>(i % 7) - 3);
    parameter->value = Tensor::from(values, parameter->value.shape());
  }
}

std::shared_ptr<Parameter> weight_of(const Model& model, const std::string& ending) {
  for (const auto* group : {&model.parameters(), &model.frozen()})
    for (const auto& parameter : *group)
      if (parameter->name.ends_with(ending)) return parameter;
  return nullptr;
}

TEST_F(LoraKinds, NewLengthsAreThoseOfTheRowsAndChangeNothing) {
  for (const char* config : {kTurnedDecoder, kRowDecoder}) {
    const auto model = base(config);
    const std::vector<float> before = decoder_logits(*model);
    Adaptation::add(*model, fields(R"("use_dora": true, "target_modules": "all-linear")"), 1);
    expect_all_near(decoder_logits(*model), before, 1e-6f);
    saved(*model);
    const auto file = SafetensorsFile::open(folder_ / "adapters/adapter_model.safetensors");
    const bool turned = config == kTurnedDecoder;
    EXPECT_EQ(file.find(turned ? "base_model.model.transformer.h.1.attn.c_attn.lora_magnitude_vector"
                               : "base_model.model.model.layers.1.self_attn.q_proj.lora_magnitude_vector")
                  ->shape,
              (Shape{turned ? 48 : 16}));
  }
}

// Beside the weights, merged into them and as one of several: row i is m_i (w_i + s (B A)_i) / |w_i + s (B A)_i|.
TEST_F(LoraKinds, DoraScalesTheRowsOfTheSum) {
  for (const char* config : {kTurnedDecoder, kRowDecoder}) {
    const auto model = base(config);
    const std::vector<float> plain = decoder_logits(*model);
    Adaptation::add(*model, fields(R"("use_dora": true, "r": 3, "target_modules": "all-linear")"), 1);
    shake_all(*model);
    const std::vector<float> expected = decoder_logits(*model);
    const std::string adapters = saved(*model);
    expect_all_near(decoder_logits(*Model::from_pretrained(adapters, {.keep_adapters = true})), expected, 1e-6f);
    const auto merged = Model::from_pretrained(adapters);
    expect_all_near(decoder_logits(*merged), expected);

    const bool turned = config == kTurnedDecoder;
    const std::string name = turned ? "h.1.mlp.c_fc" : "layers.1.mlp.down_proj";
    const auto weight = weight_of(*model, name + ".weight");
    const auto w = weight->value.to_vector<float>(),
               a = weight_of(*model, name + ".lora_A.weight")->value.to_vector<float>(),
               b = weight_of(*model, name + ".lora_B.weight")->value.to_vector<float>(),
               m = weight_of(*model, name + ".lora_magnitude_vector")->value.to_vector<float>(),
               found = weight_of(*merged, name + ".weight")->value.to_vector<float>();
    const size_t out = m.size(), in = w.size() / out;
    for (size_t i = 0; i < out; ++i) {
      std::vector<double> row(in);
      double squares = 0;
      for (size_t j = 0; j < in; ++j) {
        row[j] = w[turned ? j * out + i : i * in + j];
        for (size_t k = 0; k < 3; ++k) row[j] += 8.0 / 3 * b[i * 3 + k] * a[k * in + j];
        squares += row[j] * row[j];
      }
      for (size_t j = 0; j < in; ++j)
        ASSERT_NEAR(found[turned ? j * out + i : i * in + j], m[i] * row[j] / std::sqrt(squares), 1e-5);
    }

    const auto shared = base(config);
    // The same weights as the model's own.
    expect_all_near(decoder_logits(*shared), plain, 0);
    const AdapterSet set = read_adapter_set(*shared, adapters);
    const NoGradient none;
    expect_all_near(decoder_logits(*shared, {.computing = {.adapters = &set}}), expected, 1e-6f);
  }
}

// What dropout left out is not scaled either, as PEFT has it.
TEST_F(LoraKinds, DoraScalesWhatDropoutLeft) {
  const auto model = base(kRowDecoder);
  const std::vector<float> before = decoder_logits(*model);
  Adaptation::add(*model, fields(R"("use_dora": true, "lora_dropout": 0.9999999)"), 1);
  shake_all(*model);
  expect_all_near(decoder_logits(*model, {.training = true, .dropout_key = random_key(1, 1)}), before, 1e-6f);
}

TEST_F(LoraKinds, BiasesOfBAreMergedWhereLayersHaveThem) {
  for (const char* config : {kTurnedDecoder, kRowDecoder}) {
    const auto model = base(config);
    Adaptation::add(*model, fields(R"("lora_bias": true, "r": 3, "target_modules": "all-linear")"), 1);
    ASSERT_NE(weight_of(*model, "1.mlp." + std::string(config == kTurnedDecoder ? "c_fc" : "up_proj") + ".lora_B.bias"),
              nullptr);
    shake_all(*model);
    const std::vector<float> expected = decoder_logits(*model);
    const auto loaded = Model::from_pretrained(saved(*model));
    expect_all_near(decoder_logits(*loaded), expected);
    EXPECT_EQ(loaded->adaptation() == nullptr, config == kTurnedDecoder);  // LLaMA's layers have none: adapters stay
  }
}

TEST_F(LoraKinds, OrthonormalMatricesAreTakenOutOfTheWeight) {
  const auto model = base(kRowDecoder);
  const std::vector<float> before = decoder_logits(*model);
  Adaptation::add(*model, fields(R"("init_lora_weights": "olora", "r": 4)"), 1);
  expect_all_near(decoder_logits(*model), before);
  const auto b = weight_of(*model, "q_proj.lora_B.weight")->value.to_vector<float>();
  for (size_t i = 0; i < 4; ++i)
    for (size_t j = 0; j <= i; ++j) {
      double product = 0;
      for (size_t row = 0; row < 16; ++row) product += b[row * 4 + i] * b[row * 4 + j];
      EXPECT_NEAR(product, i == j, 1e-6);
    }
  shake_all(*model);
  const std::vector<float> expected = decoder_logits(*model);
  const std::string adapters = saved(*model);
  expect_all_near(decoder_logits(*Model::from_pretrained(adapters)), expected);
  const auto shared = Model::from_pretrained((folder_ / "base").string());
  EXPECT_NE(test::message_of([&] { read_adapter_set(*shared, adapters); }).find("init_lora_weights changes the weight"),
            std::string::npos);
  const auto turned = base(kTurnedDecoder);
  EXPECT_NE(test::message_of([&] {
              Adaptation::add(*turned, fields(R"("init_lora_weights": "olora")"), 1);
            }).find("held as [in, out]"),
            std::string::npos);
}

// What PEFT may come to write: a field that nobody knows is read only where it says nothing.
TEST_F(LoraKinds, RefusesFieldsThatAreNotKnown) {
  for (const char* harmless :
       {R"("new_field": null)", R"("new_field": false)", R"("new_field": [])", R"("peft_version": "0.21.2")",
        R"("qalora_group_size": 16)", R"("eva_config": {"rho": 2})", R"("ensure_weight_tying": true)"})
    EXPECT_EQ(test::message_of([&] { fields(harmless); }), "") << harmless;
  for (const char* refused :
       {R"("new_field": true)", R"("new_field": 3)", R"("use_bdlora": {"target_modules_bd_a": ["q"]})",
        R"("ensure_weight_tying": true, "modules_to_save": ["lm_head"])"}) {
    const std::string message = test::message_of([&] { fields(refused); });
    EXPECT_NE(message.find("is not carried out"), std::string::npos) << refused << ": " << message;
  }
}

TEST(PartOfQr, HasTheSignsOfLapack) {
  // numpy.linalg.qr([[1, 2, 3], [4, 5, 6], [7, 8, 10]])
  const PartOfQr part = part_of_qr({1, 2, 3, 4, 5, 6, 7, 8, 10}, 3, 3, 2);
  expect_all_near(part.q, {-0.12309149f, 0.90453403f, -0.49236596f, 0.30151134f, -0.86164044f, -0.30151134f}, 1e-6f);
  expect_all_near(part.r, {-8.1240384f, -9.6011363f, -11.939875f, 0, 0.90453403f, 1.5075567f}, 1e-5f);
}

// PEFT saves the head's own weight beside its adapter.
TEST_F(LoraKinds, HeadsHaveAdapters) {
  const auto model = base(kRowDecoder);
  Adaptation::add(*model, fields(R"("target_modules": ["q_proj", "lm_head"])"), 1);
  shake_all(*model);
  const std::vector<float> expected = decoder_logits(*model);
  const std::string adapters = saved(*model);
  expect_all_near(decoder_logits(*Model::from_pretrained(adapters)), expected);

  const fs::path path = fs::path(adapters) / "adapter_model.safetensors";
  NamedViews views;
  const auto file = SafetensorsFile::open(path);
  for (const auto& [name, view] : file.tensors()) views.emplace_back(name, view);
  const std::vector<float> zeros(20 * 16);
  views.emplace_back("base_model.model.lm_head.base_layer.weight",
                     TensorView{DType::kFloat32, {20, 16}, std::as_bytes(std::span(zeros)), nullptr});
  const std::string other = (folder_ / "other").string();
  fs::create_directories(other);
  write_safetensors(fs::path(other) / "adapter_model.safetensors", views);
  write_file(fs::path(other) / "adapter_config.json", read_file(fs::path(adapters) / "adapter_config.json"));
  const auto read = Model::from_pretrained(other, {.keep_adapters = true});
  EXPECT_EQ(weight_of(*read, "lm_head.weight")->value.to_vector<float>(), zeros);
}

// PEFT copies what it trains: the other of two modules that share a weight keeps it.
TEST_F(LoraKinds, ModulesThatShareAWeightPart) {
  base(kTurnedDecoder);
  const std::string directory = (folder_ / "base").string();
  for (const std::string saved_module : {"wte", "lm_head"}) {
    const AdapterConfig config = fields(R"("modules_to_save": [")" + saved_module + "\"]");
    const auto tied = Model::from_pretrained(directory);
    const std::vector<float> before = decoder_logits(*tied);
    const auto table = weight_of(*tied, "wte.weight")->value.to_vector<float>();
    EXPECT_NE(test::message_of([&] { Adaptation::add(*tied, config, 1); }).find("modules_to_save"), std::string::npos);
    const auto model = load_base(directory, config, {}, nullptr);
    Adaptation::add(*model, config, 1);
    EXPECT_EQ(decoder_logits(*model), before);
    shake_all(*model);
    const bool head = saved_module == "lm_head";
    EXPECT_EQ(weight_of(*model, "wte.weight")->value.to_vector<float>() == table, head);
    EXPECT_EQ(weight_of(*model, "lm_head.weight")->value.to_vector<float>() == table, !head);
    const std::vector<float> expected = decoder_logits(*model);
    const auto merged = Model::from_pretrained(saved(*model));
    expect_all_near(decoder_logits(*merged), expected);
    merged->save_pretrained((folder_ / "merged").string());
    expect_all_near(decoder_logits(*Model::from_pretrained((folder_ / "merged").string())), expected);
  }
}

// Without an initialisation both matrices are drawn, so that new adapters change something.
TEST_F(LoraKinds, BothMatricesAreDrawn) {
  const auto model = base(kTurnedDecoder);
  const std::vector<float> before = decoder_logits(*model);
  Adaptation::add(*model, fields(R"("init_lora_weights": false)"), 1);
  EXPECT_NE(decoder_logits(*model), before);
}

}  // namespace
}  // namespace transom
