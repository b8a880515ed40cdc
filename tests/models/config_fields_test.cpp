// SPDX-License-Identifier: Apache-2.0
// Fields of config.json that change what a model computes, or whose parameters, in ways that no golden case
// has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/json/json.h"
#include "files/config/config.h"
#include "support/message.h"
#include "transom/gradients.h"
#include "transom/model.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char* kSizes = R"("vocab_size": 13, "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 2,
  "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "initializer_range": 0.5,
  "max_position_embeddings": 16)";

std::string changed_config(const std::string& type, const std::string& architecture, const std::string& more = "") {
  return R"({"model_type": ")" + type + R"(", "architectures": [")" + architecture + R"("], )" + kSizes + more + "}";
}

NamedTensors field_tokens(const std::vector<int64_t>& ids = {3, 4, 5, 6, 7, 8}) {
  return {{"input_ids", Tensor::from(ids, {1, static_cast<int64_t>(ids.size())})}};
}

std::vector<float> logits_of(const std::string& text, const NamedTensors& inputs = field_tokens()) {
  return Model::from_config(text)->forward(inputs).at("logits").to_vector<float>();
}

bool has_parameter(const Model& model, const std::string& name) {
  for (const auto& parameter : model.parameters())
    if (parameter->name == name) return true;
  return false;
}

// Without a mask its local layers see their window as with one.
TEST(ConfigFields, ModernBertNeedsNoMask) {
  const std::string text = changed_config("modernbert", "ModernBertForMaskedLM", R"(, "local_attention": 2)");
  NamedTensors masked = field_tokens();
  masked.set("attention_mask", Tensor::from(std::vector<int64_t>(6, 1), {1, 6}));
  const auto with = logits_of(text, masked), without = logits_of(text);
  for (size_t i = 0; i < with.size(); ++i) EXPECT_NEAR(with[i], without[i], 1e-5) << i;
}

// Transformers ties nothing of Nemotron-H, whatever the field says.
TEST(ConfigFields, NemotronHHasAHeadOfItsOwn) {
  for (const char* tied : {"false", "true"}) {
    const auto model = Model::from_config(
        changed_config("nemotron_h", "NemotronHForCausalLM",
                       std::string(R"(, "layers_block_type": ["attention", "mlp"], "tie_word_embeddings": )") + tied));
    EXPECT_TRUE(has_parameter(*model, "lm_head.weight")) << tied;
  }
}

// What is left out are the places that have no share in the loss.
TEST(ConfigFields, ModernBertPredictsSparselyWithTheSameLoss) {
  const auto loss = [](const std::string& more) {
    NamedTensors inputs = field_tokens();
    inputs.set("labels", Tensor::from(std::vector<int64_t>{-100, 5, -100, -100, 9, -100}, {1, 6}));
    return Model::from_config(changed_config("modernbert", "ModernBertForMaskedLM", more))
        ->forward(inputs)
        .at("loss")
        .item<float>();
  };
  EXPECT_EQ(loss(R"(, "sparse_prediction": true, "sparse_pred_ignore_index": -100)"), loss(""));
  const std::string refusal =
      test::message_of([&] { loss(R"(, "sparse_prediction": true, "sparse_pred_ignore_index": 0)"); });
  EXPECT_NE(refusal.find("sparse_pred_ignore_index"), std::string::npos) << refusal;
}

// Gates that are clamped at 0 still let their negative halves by; without a number there is no clamping to be made.
TEST(ConfigFields, GptOssClampsItsGatesAtZeroToo) {
  const auto logits = [](const std::string& limit) {
    return logits_of(changed_config("gpt_oss", "GptOssForCausalLM",
                                    R"(, "num_local_experts": 2, "num_experts_per_tok": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000}, "swiglu_limit": )" +
                                        limit));
  };
  const auto zero = logits("0.0"), near = logits("1e-7"), far = logits("7.0");
  float moved = 0;
  for (size_t i = 0; i < zero.size(); ++i) {
    EXPECT_NEAR(zero[i], near[i], 1e-5) << i;
    moved = std::max(moved, std::abs(zero[i] - far[i]));
  }
  EXPECT_GT(moved, 1e-3);
  const std::string refusal = test::message_of([&] { logits("null"); });
  EXPECT_NE(refusal.find("experts.limit"), std::string::npos) << refusal;
}

// Only the classes that pool have a pooler, whose width is that of what it reads.
TEST(ConfigFields, DebertaReadsThePoolersWidthWhereItPools) {
  const std::string wide = R"(, "pooler_hidden_size": 12)";
  for (const auto& [type, name] : {std::pair{"deberta", "Deberta"}, {"deberta-v2", "DebertaV2"}}) {
    EXPECT_EQ(logits_of(changed_config(type, std::string(name) + "ForMaskedLM", wide)),
              logits_of(changed_config(type, std::string(name) + "ForMaskedLM")));
    const std::string classes = changed_config(type, std::string(name) + "ForSequenceClassification", wide);
    const std::string refusal = test::message_of([&] { Model::from_config(classes); });
    EXPECT_NE(refusal.find("pooler_hidden_size 12 must be hidden_size 8"), std::string::npos) << refusal;
  }
}

// YaRN's truncate within the parameters of one kind of layer is not read by Transformers; beside them it is.
TEST(ConfigFields, YarnTruncateStandsBesideTheKindsOfLayers) {
  const auto logits = [](const std::string& within, const std::string& beside) {
    return logits_of(changed_config("gemma3_text", "Gemma3ForCausalLM",
                                    R"(, "head_dim": 16, "layer_types": ["full_attention",
        "full_attention"], "rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 500, "factor": 40,
        "beta_fast": 8, "original_max_position_embeddings": 64)" +
                                        within + "}" + beside + "}"));
  };
  const std::string field = R"(, "truncate": false)";
  EXPECT_EQ(logits(field, ""), logits("", ""));
  EXPECT_NE(logits("", field), logits("", ""));
}

// Values of which frequencies would be no numbers are refused, not computed with.
TEST(ConfigFields, OfRotaryEmbeddingsGiveFiniteFrequenciesOrAreRefused) {
  const auto llama = [](const std::string& fields) {
    return changed_config("llama", "LlamaForCausalLM", R"(, "rope_parameters": {"rope_theta": 500, )" + fields + "}");
  };
  const std::string yarn = R"("rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16)";
  EXPECT_EQ(logits_of(llama(yarn + R"(, "beta_fast": 0, "beta_slow": 0)")), logits_of(llama(yarn)));
  for (const std::string& fields :
       {yarn + R"(, "beta_fast": -1)",
        std::string(R"("rope_type": "longrope", "factor": 4, "original_max_position_embeddings": 16,
                       "short_factor": [0, 0], "long_factor": [1, 1])")}) {
    const std::string message = test::message_of([&] { Model::from_config(llama(fields)); });
    EXPECT_NE(message, "") << fields;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

// Gemma 1 says gelu and means its approximation; a field of other versions says nothing.
TEST(ConfigFields, GemmaReadsHiddenAct) {
  const auto with = [](const std::string& more) {
    return logits_of(changed_config("gemma", "GemmaForCausalLM", more));
  };
  EXPECT_EQ(with(""), with(R"(, "hidden_act": "gelu")"));
  EXPECT_EQ(with(""), with(R"(, "hidden_activation": "relu")"));
  EXPECT_NE(with(""), with(R"(, "hidden_act": "relu")"));
}

TEST(ConfigFields, JitterOfTheRouterIsRefusedInTrainingAlone) {
  const auto model =
      Model::from_config(changed_config("mixtral", "MixtralForCausalLM", R"(, "router_jitter_noise": 0.1)"));
  EXPECT_NO_THROW(model->forward(field_tokens()));
  EXPECT_NE(test::message_of([&] { model->forward(field_tokens(), {.training = true}); }).find("router_jitter_noise"),
            std::string::npos);
}

TEST(ConfigFields, UntiedHeadsHaveParametersOfTheirOwn) {
  const std::string untied = R"(, "tie_word_embeddings": false)";
  const auto deberta = Model::from_config(changed_config("deberta-v2", "DebertaV2ForMaskedLM", untied));
  EXPECT_TRUE(has_parameter(*deberta, "cls.predictions.decoder.bias"));
  EXPECT_FALSE(has_parameter(*deberta, "cls.predictions.bias"));
}

// tie_word_embeddings says whether T5's head is scaled; it has a weight of its own where the checkpoint holds one.
TEST(ConfigFields, T5HeadsAreTiedUnlessStored) {
  const std::string text = R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 13,
    "d_model": 8, "d_kv": 4, "d_ff": 6, "num_layers": 1, "num_heads": 2, "tie_word_embeddings": )";
  NamedTensors inputs = field_tokens();
  inputs.set("decoder_input_ids", inputs.at("input_ids"));
  const auto tied = Model::from_config(text + "true}"), plain = Model::from_config(text + "false}");
  EXPECT_FALSE(has_parameter(*plain, "lm_head.weight"));
  const auto scaled = tied->forward(inputs).at("logits").to_vector<float>(),
             whole = plain->forward(inputs).at("logits").to_vector<float>();
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(scaled[i] * std::sqrt(8.0f), whole[i], 1e-4) << i;
}

// Transformers writes T5's activation and gate beside feed_forward_proj, and reads what it has written.
TEST(ConfigFields, ActivationsOfT5AreThoseThatStandBesideTheirProjection) {
  const auto with = [](const std::string& fields) {
    return Model::from_config(R"({"model_type": "t5", "architectures": ["T5EncoderModel"], "vocab_size": 13,
      "d_model": 8, "d_kv": 4, "d_ff": 6, "num_layers": 1, "num_heads": 2, "feed_forward_proj": )" +
                              fields + "}");
  };
  const auto outputs = [](const Model& model) {
    return model.forward(field_tokens()).at("last_hidden_state").to_vector<float>();
  };
  EXPECT_EQ(outputs(*with(R"("gated-gelu", "dense_act_fn": "silu")")), outputs(*with(R"("gated-silu")")));
  EXPECT_NE(outputs(*with(R"("gated-gelu")")), outputs(*with(R"("gated-silu")")));
  EXPECT_TRUE(has_parameter(*with(R"("gated-gelu", "is_gated_act": false)"),
                            "encoder.block.0.layer.1.DenseReluDense.wi.weight"));
}

// GPT-Neo's kinds of layers stand in a file twice; those that are written out count.
TEST(ConfigFields, LayersOfGptNeoAreThoseThatAreWrittenOut) {
  const auto logits = [](const std::string& fields) {
    return logits_of(R"({"model_type": "gpt_neo", "architectures": ["GPTNeoForCausalLM"], "vocab_size": 13,
      "hidden_size": 8, "num_heads": 2, "num_layers": 2, "window_size": 2, "initializer_range": 0.5,
      "max_position_embeddings": 16, "attention_types": )" +
                     fields + "}");
  };
  const auto local = logits(R"([[["local"], 2]])");
  EXPECT_EQ(logits(R"([[["global"], 2]], "attention_layers": ["local", "local"])"), local);
  EXPECT_NE(logits(R"([[["global"], 2]])"), local);
}

// Marian's stacks share their words unless a checkpoint without ties holds them twice.
TEST(ConfigFields, MarianStacksMayHaveWordsOfTheirOwn) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "transom_marian_untied";
  const std::string start = R"({"model_type": "marian", "architectures": ["MarianMTModel"], "vocab_size": 13,
    "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 6, "decoder_ffn_dim": 6, "max_position_embeddings": 16,
    "pad_token_id": 12, "decoder_start_token_id": 12, "tie_word_embeddings": false,
    "share_encoder_decoder_embeddings": )";
  const auto model = Model::from_config(start + "false}");
  model->save_pretrained(folder.string());
  set_field(model->config(), "share_encoder_decoder_embeddings", true);
  model->save_pretrained(folder.string());
  const auto again = Model::from_pretrained(folder.string());
  EXPECT_TRUE(has_parameter(*again, "model.decoder.embed_tokens.weight"));
  NamedTensors inputs = field_tokens();
  inputs.set("decoder_input_ids", inputs.at("input_ids"));
  const auto got = again->forward(inputs).at("logits").to_vector<float>(),
             expected = model->forward(inputs).at("logits").to_vector<float>();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
  std::filesystem::remove_all(folder);
}

// The vector of padding is not trained, unless there is no padding.
TEST(ConfigFields, WithoutPaddingEachVectorIsTrained) {
  const auto trained = [](const std::string& type, const std::string& name, const std::string& table,
                          const std::string& more) {
    const auto model = Model::from_config(changed_config(type, name + "ForSequenceClassification", more));
    NamedTensors inputs = field_tokens({0, 1, 2, 3});
    inputs.set("labels", Tensor::from(std::vector<int64_t>{1}, {1}));
    const Tensor loss = model->forward(inputs).at("loss");
    for (const auto& parameter : model->parameters())
      if (parameter->name.ends_with(table)) {
        const auto gradient = gradients(loss, {parameter->value})[0].to_vector<float>();
        const auto row = static_cast<std::ptrdiff_t>(gradient.size() / 13);
        return std::any_of(gradient.begin(), gradient.begin() + row, [](float x) { return x != 0; });
      }
    ADD_FAILURE() << "no " << table;
    return false;
  };
  const std::string none = R"(, "pad_token_id": null)", zero = R"(, "pad_token_id": 0)";
  for (const auto& [type, name] : {std::pair{"bert", "Bert"}, {"electra", "Electra"}, {"deberta-v2", "DebertaV2"}}) {
    EXPECT_FALSE(trained(type, name, "word_embeddings.weight", "")) << name;
    EXPECT_TRUE(trained(type, name, "word_embeddings.weight", none)) << name;
  }
  const std::string sizes = R"(, "dim": 8, "n_heads": 2, "n_layers": 1, "hidden_dim": 6)";
  EXPECT_FALSE(trained("distilbert", "DistilBert", "word_embeddings.weight", sizes));
  EXPECT_TRUE(trained("distilbert", "DistilBert", "word_embeddings.weight", sizes + none));
  EXPECT_FALSE(trained("modernbert", "ModernBert", "tok_embeddings.weight", zero));
  EXPECT_TRUE(trained("modernbert", "ModernBert", "tok_embeddings.weight", none));
  EXPECT_NE(test::message_of([&] {
              Model::from_config(changed_config("roberta", "RobertaModel", none));
            }).find("pad_token_id"),
            std::string::npos);
}

// Families whose own padding id is another than BART's have none either where the configuration says null: labels,
// which are read with it, are refused.
TEST(ConfigFields, MarianAndWhisperHaveNoPaddingIdWhereItIsNull) {
  const std::string sizes = R"("vocab_size": 58102, "d_model": 4, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 1, "decoder_attention_heads": 1, "encoder_ffn_dim": 2, "decoder_ffn_dim": 2,
    "max_position_embeddings": 16, "max_source_positions": 4, "max_target_positions": 16, "num_mel_bins": 2,
    "decoder_start_token_id": 1)";
  const Tensor ids = field_tokens().at("input_ids");
  const Tensor sound = Tensor::from(std::vector<float>(16), {1, 2, 8});
  const NamedTensors texts{{"input_ids", ids}, {"labels", ids}}, sounds{{"input_features", sound}, {"labels", ids}};
  const auto forward = [&](const std::string& type, const std::string& name, const std::string& more) {
    Model::from_config(R"({"model_type": ")" + type + R"(", "architectures": [")" + name + "\"], " + sizes + more + "}")
        ->forward(type == "marian" ? texts : sounds);
  };
  for (const auto& [type, name] :
       {std::pair{"marian", "MarianMTModel"}, {"whisper", "WhisperForConditionalGeneration"}}) {
    EXPECT_EQ(test::message_of([&, &type = type, &name = name] { forward(type, name, ""); }), "") << name;
    EXPECT_NE(test::message_of([&, &type = type, &name = name] {
                forward(type, name, R"(, "pad_token_id": null)");
              }).find("pad_token_id: expected a number"),
              std::string::npos)
        << name;
  }
}

// scale_embedding is for words: the encoder takes given embeddings as they are, the decoder scales them too.
TEST(ConfigFields, MarianScalesGivenEmbeddingsInTheDecoderAlone) {
  const auto model = Model::from_config(R"({"model_type": "marian", "architectures": ["MarianModel"], "vocab_size": 13,
    "d_model": 9, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 3, "init_std": 0.5,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 6, "decoder_ffn_dim": 6, "max_position_embeddings": 16,
    "pad_token_id": 12, "decoder_start_token_id": 12, "scale_embedding": true})");
  const Tensor ids = field_tokens().at("input_ids");
  Tensor words;
  for (const auto& parameter : model->parameters())
    if (parameter->name == "shared.weight") words = gather(parameter->value, ids, 0);
  const auto hidden = [&](const NamedTensors& inputs) {
    return model->forward(inputs).at("last_hidden_state").to_vector<float>();
  };
  const auto expected = hidden({{"input_ids", ids}, {"decoder_input_ids", ids}}),
             got = hidden({{"inputs_embeds", words * 3.0}, {"decoder_inputs_embeds", words}});
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4) << i;
}

}  // namespace
}  // namespace transom
