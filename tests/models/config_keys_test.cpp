// SPDX-License-Identifier: Apache-2.0
// Nothing of config.json is ignored: for every text family, each key that changes results in some family is read or
// refused, and what Transformers writes is known.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "files/config/known_keys.h"
#include "models/family.h"
#include "support/golden_cases.h"
#include "support/message.h"
#include "transom/model.h"

namespace transom {
namespace {

// A small model of the family, of the fields that any may ask for.
Json small_config(const char* type, const std::string& architecture) {
  Json json = parse_json(R"({"vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 32, "n_embd": 16, "n_layer": 2,
    "n_head": 2, "n_positions": 32, "dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 2, "d_model": 16, "d_kv": 8,
    "d_ff": 24, "num_layers": 2, "num_heads": 2, "ffn_dim": 24, "pad_token_id": 0 })",
                         "small");
  json["model_type"] = type;
  json["architectures"] = Json::array({architecture});
  if (json["model_type"] == "mixtral") json["num_local_experts"] = 2;
  if (std::string_view(type).ends_with("_moe"))
    json.update({{"num_experts", 3}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 8}});
  if (json["model_type"] == "gemma3_text") json["sliding_window_pattern"] = 2;  // a layer of each kind
  return json;
}

constexpr std::pair<const char*, const char*> kFamilies[] = {
    {"llama", "LlamaForCausalLM"},        {"mistral", "MistralForCausalLM"}, {"mixtral", "MixtralForCausalLM"},
    {"qwen2", "Qwen2ForCausalLM"},        {"qwen3", "Qwen3ForCausalLM"},     {"qwen2_moe", "Qwen2MoeForCausalLM"},
    {"qwen3_moe", "Qwen3MoeForCausalLM"}, {"gemma", "GemmaForCausalLM"},     {"gemma2", "Gemma2ForCausalLM"},
    {"gemma3_text", "Gemma3ForCausalLM"}, {"phi3", "Phi3ForCausalLM"},       {"gpt2", "GPT2LMHeadModel"},
    {"gpt_neox", "GPTNeoXForCausalLM"},   {"bloom", "BloomForCausalLM"},     {"starcoder2", "Starcoder2ForCausalLM"},
    {"bert", "BertForMaskedLM"},          {"roberta", "RobertaForMaskedLM"}, {"distilbert", "DistilBertForMaskedLM"},
    {"t5", "T5ForConditionalGeneration"}};

TEST(ConfigKeys, ThatChangeResultsAreReadRefusedOrReportedInEveryTextFamily) {
  const Json values =
      parse_json(R"({"embedding_multiplier": 12, "attention_multiplier": 0.5, "residual_multiplier": 0.2,
    "logits_scaling": 8, "logit_scale": 0.06, "scale_emb": 12, "final_logit_softcapping": 30.0,
    "attn_logit_softcapping": 50.0, "query_pre_attn_scalar": 99, "qk_norm": true, "use_qk_norm": true,
    "attention_bias": true, "mlp_bias": true, "clip_qkv": 8.0, "alibi": true, "partial_rotary_factor": 0.5,
    "rope_interleave": true, "sliding_window": 4, "attention_chunk_size": 4, "no_rope_layers": [1, 0],
    "layer_types": ["sliding_attention", "full_attention"], "num_experts": 4, "n_routed_experts": 4,
    "shared_expert_intermediate_size": 8, "first_k_dense_replace": 1, "q_lora_rank": 4, "kv_lora_rank": 4,
    "scale_attn_by_inverse_layer_idx": true, "parallel_attn": true, "add_cross_attention": true,
    "position_embedding_type": "relative_key", "use_parallel_residual": true, "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0}, "type_vocab_size": 3, "attn_output_gate": true,
    "embedding_size": 8, "rms_norm": false, "do_layer_norm_before": false})",
                 "values");
  for (const auto& [type, architecture] : kFamilies) {
    for (const auto& [key, value] : values.items()) {
      // Qwen reads its window where use_sliding_window asks for one.
      if (key == "sliding_window" && std::string_view(type).starts_with("qwen")) continue;
      Json json = small_config(type, architecture);
      json[key] = value;
      json["remark_of_" + std::string(type)] = key;  // what is said once is not said again
      json["remark_of_" + key] = type;
      std::string said;
      set_log_sink([&](LogLevel, std::string_view text) { said += text; });
      std::unique_ptr<Model> model;
      const std::string refused = test::message_of([&] { model = Model::from_config(dump_json(json)); });
      set_log_sink({});
      if (model)
        EXPECT_TRUE(was_read(model->config(), key) || said.find("'" + key + "'") != said.npos)
            << type << ": " << key << " is ignored";
      else EXPECT_EQ(refused.find('\n'), std::string::npos) << refused;
    }
    EXPECT_EQ(test::message_of([&, &type = type, &architecture = architecture] {
                Model::from_config(dump_json(small_config(type, architecture)));
              }),
              "")
        << type;
  }
}

TEST(ConfigKeys, ThatTransformersWritesAreKnown) {
  for (const std::string& name : test::golden_cases_with("case.json")) {
    const fs::path file = test::folder_of_case(name) / "model" / "config.json";
    if (!fs::exists(file)) continue;
    std::string said;
    set_log_sink([&](LogLevel level, std::string_view text) {
      if (level == LogLevel::kWarning && text.find("not known") != text.npos) said.append(text).append("\n");
    });
    const std::string refused = test::message_of([&] { Model::from_config(Config::read(file).dump()); });
    set_log_sink({});
    EXPECT_EQ(said, "") << name;
    EXPECT_EQ(refused.find("carried out"), std::string::npos) << name << ": " << refused;
  }
}

TEST(ConfigKeys, ThatNobodyKnowsAreSaid) {
  Json json = small_config("llama", "LlamaForCausalLM");
  json["my_own_remark"] = 5;
  std::string said;
  set_log_sink([&](LogLevel, std::string_view text) { said += text; });
  Model::from_config(dump_json(json));
  set_log_sink({});
  EXPECT_NE(said.find("'my_own_remark'"), std::string::npos) << said;
}

}  // namespace
}  // namespace transom
