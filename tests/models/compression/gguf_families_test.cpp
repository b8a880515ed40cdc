// SPDX-License-Identifier: Apache-2.0
// Each family that GGUF has, written and read back: the file computes what the model did, with sizes that hide nothing
// (heads that are no part of the width, shared keys, odd vocabularies, windows, scaled positions).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/files/files.h"
#include "base/json/json.h"
#include "base/numbers/mt19937.h"
#include "files/gguf/gguf_file.h"
#include "models/compression/quantize.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/gradients.h"
#include "transom/model.h"

namespace transom {
namespace {

using test::message_of;

struct FamilyCase {
  const char* name;
  const char* config;
};

// Norms and biases of new models are ones and zeros, which would hide what is lost.
void save_random(const std::string& config, const fs::path& folder) {
  const auto model = Model::from_config(config, {.seed = 5});
  Mt19937 random(3);
  for (const auto& parameter : model->parameters()) {
    std::vector<float> numbers = parameter->value.to_vector<float>();
    for (float& number : numbers) number += 0.2f * (static_cast<float>(random.randint(1000)) / 500.0f - 1);
    parameter->value = Tensor::from(numbers, parameter->value.shape());
  }
  model->save_pretrained(folder.string());
}

std::vector<float> outputs_of(const std::string& path, bool encoder_decoder) {
  const NoGradient inference;
  const auto model = Model::from_pretrained(path);
  const std::vector<int64_t> ids{1, 5, 2, 9, 4, 3, 3, 8, 10, 4, 6, 1};
  NamedTensors inputs{{"input_ids", Tensor::from(ids, {1, 12})}};
  if (encoder_decoder) inputs.set("decoder_input_ids", Tensor::from(std::vector<int64_t>{0, 7, 3, 2}, {1, 4}));
  const NamedTensors outputs = model->forward(inputs);
  const Tensor logits = outputs.find("logits");
  return (logits.defined() ? logits : outputs.at("last_hidden_state")).to_vector<float>();
}

double distance(const std::vector<float>& found, const std::vector<float>& expected) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(found[i]) - expected[i]));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return found.size() == expected.size() ? worst / largest : 1;
}

class GgufFamily : public testing::TestWithParam<FamilyCase> {};

TEST_P(GgufFamily, ComputesTheSame) {
  const test::TemporaryFolder folder;
  save_random(GetParam().config, folder.path());
  const bool seq2seq = std::string(GetParam().config).find("T5For") != std::string::npos;
  const std::vector<float> expected = outputs_of(folder.string(), seq2seq);
  const std::string path = (folder / "made.gguf").string();
  // Rates of a state go through a logarithm and back.
  for (const auto& [type, most] : {std::pair<const char*, double>{"f32", 1e-5}, {"q8_0", 0.1}}) {
    quantize_model(folder.string(), path, {.format = "gguf", .type = type});
    EXPECT_LE(distance(outputs_of(path, seq2seq), expected), most) << type;
  }
}

constexpr FamilyCase kCases[] = {
    {"llama", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 37, "hidden_size": 48,
      "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
      "head_dim": 12, "max_position_embeddings": 64, "attention_bias": true, "mlp_bias": true,
      "rope_parameters": {"rope_type": "llama3", "rope_theta": 5000, "factor": 5, "low_freq_factor": 1.5,
        "high_freq_factor": 3, "original_max_position_embeddings": 20}})"},
    {"mistral", R"({"model_type": "mistral", "architectures": ["MistralForCausalLM"], "vocab_size": 37,
      "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 6,
      "num_key_value_heads": 3, "head_dim": 16, "max_position_embeddings": 64, "sliding_window": 5})"},
    {"mixtral", R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "vocab_size": 37,
      "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 64, "num_local_experts": 3, "num_experts_per_tok": 2})"},
    {"qwen2", R"({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 37, "hidden_size": 48,
      "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 3,
      "max_position_embeddings": 64, "tie_word_embeddings": true})"},
    {"qwen3", R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 37, "hidden_size": 48,
      "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 3,
      "head_dim": 20, "max_position_embeddings": 64, "attention_bias": true})"},
    {"qwen2_moe", R"({"model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"], "vocab_size": 37,
      "hidden_size": 48, "intermediate_size": 60, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 3, "max_position_embeddings": 64,
      "num_experts": 3, "num_experts_per_tok": 2})"},
    {"qwen3_moe", R"({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 37,
      "hidden_size": 48, "intermediate_size": 60, "moe_intermediate_size": 32, "num_hidden_layers": 2,
      "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 20, "max_position_embeddings": 64,
      "num_experts": 5, "num_experts_per_tok": 2, "norm_topk_prob": true, "attention_bias": true})"},
    {"gemma", R"({"model_type": "gemma", "architectures": ["GemmaForCausalLM"], "vocab_size": 37, "hidden_size": 48,
      "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1,
      "head_dim": 20, "max_position_embeddings": 64})"},
    {"gemma2", R"({"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "vocab_size": 37,
      "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 20, "query_pre_attn_scalar": 20, "sliding_window": 4,
      "max_position_embeddings": 64})"},
    {"gemma3", R"({"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "vocab_size": 37,
      "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 20, "query_pre_attn_scalar": 20, "sliding_window": 4,
      "max_position_embeddings": 64, "final_logit_softcapping": 20,
      "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
        "sliding_attention"], "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 500},
        "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 900000}}})"},
    {"phi3", R"({"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "vocab_size": 37, "hidden_size": 48,
      "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "max_position_embeddings": 64, "original_max_position_embeddings": 8, "sliding_window": 9, "pad_token_id": 0,
      "rope_parameters": {"rope_type": "longrope", "rope_theta": 10000, "partial_rotary_factor": 0.5,
        "short_factor": [1, 1.1, 1.2], "long_factor": [1, 2, 4]}})"},
    {"gpt2", R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 37, "n_positions": 40,
      "n_embd": 24, "n_layer": 2, "n_head": 3, "n_inner": 56})"},
    {"starcoder2", R"({"model_type": "starcoder2", "architectures": ["Starcoder2ForCausalLM"], "vocab_size": 37,
      "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 6,
      "num_key_value_heads": 2, "max_position_embeddings": 64, "sliding_window": 6, "tie_word_embeddings": false})"},
    {"bloom", R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 37, "hidden_size": 48,
      "n_layer": 2, "n_head": 6})"},
    {"gpt_neox", R"({"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "vocab_size": 37,
      "hidden_size": 48, "intermediate_size": 88, "num_hidden_layers": 2, "num_attention_heads": 6, "rotary_pct": 0.5,
      "max_position_embeddings": 64, "use_parallel_residual": false, "attention_bias": false})"},
    {"cohere2", R"({"model_type": "cohere2", "architectures": ["Cohere2ForCausalLM"], "vocab_size": 37,
      "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 6,
      "num_key_value_heads": 2, "max_position_embeddings": 64, "sliding_window": 4, "logit_scale": 0.3,
      "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]})"},
    {"glm", R"({"model_type": "glm", "architectures": ["GlmForCausalLM"], "vocab_size": 37, "hidden_size": 48,
      "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
      "head_dim": 12, "max_position_embeddings": 64, "pad_token_id": 0})"},
    {"mamba", R"({"model_type": "mamba", "architectures": ["MambaForCausalLM"], "vocab_size": 37, "hidden_size": 16,
      "state_size": 5, "num_hidden_layers": 2, "conv_kernel": 3, "time_step_rank": 3})"},
    {"falcon_mamba", R"({"model_type": "falcon_mamba", "architectures": ["FalconMambaForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "state_size": 5, "num_hidden_layers": 2, "mixer_rms_eps": 1e-5})"},
    {"mamba2", R"({"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "vocab_size": 37, "hidden_size": 16,
      "state_size": 8, "num_hidden_layers": 2, "num_heads": 4, "head_dim": 8, "n_groups": 2})"},
    {"jamba", R"({"model_type": "jamba", "architectures": ["JambaForCausalLM"], "vocab_size": 37, "hidden_size": 16,
      "intermediate_size": 24, "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2,
      "num_experts": 3, "attn_layer_period": 3, "attn_layer_offset": 1, "expert_layer_period": 2,
      "expert_layer_offset": 0, "mamba_d_state": 4, "mamba_dt_rank": 3})"},
    {"lfm2", R"({"model_type": "lfm2", "architectures": ["Lfm2ForCausalLM"], "vocab_size": 37, "hidden_size": 16,
      "intermediate_size": 25, "block_multiple_of": 8, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 64, "layer_types": ["conv", "full_attention", "conv"]})"},
    {"lfm2_moe", R"({"model_type": "lfm2_moe", "architectures": ["Lfm2MoeForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "intermediate_size": 24, "moe_intermediate_size": 8, "num_hidden_layers": 3,
      "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2,
      "num_dense_layers": 1, "layer_types": ["conv", "full_attention", "conv"]})"},
    {"granitemoehybrid", R"({"model_type": "granitemoehybrid", "architectures": ["GraniteMoeHybridForCausalLM"],
      "vocab_size": 37, "hidden_size": 16, "intermediate_size": 8, "shared_intermediate_size": 24,
      "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 3,
      "mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 8, "attention_multiplier": 0.4, "logits_scaling": 3,
      "residual_multiplier": 0.7, "embedding_multiplier": 2, "position_embedding_type": "rope",
      "layer_types": ["mamba", "attention", "mamba"]})"},
    {"granite_hybrid_without_experts", R"({"model_type": "granitemoehybrid",
      "architectures": ["GraniteMoeHybridForCausalLM"], "vocab_size": 37, "hidden_size": 16, "intermediate_size": 24,
      "shared_intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "num_local_experts": 0, "num_experts_per_tok": 0, "mamba_n_heads": 4, "mamba_d_state": 8,
      "layer_types": ["mamba", "attention"]})"},
    {"nemotron_h", R"({"model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "intermediate_size": 24, "hybrid_override_pattern": "M*-M", "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 6, "ssm_state_size": 8, "mamba_num_heads": 4, "mamba_head_dim": 6,
      "n_groups": 2})"},
    {"nemotron_h_with_experts", R"({"model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"],
      "vocab_size": 37, "hidden_size": 16, "layers_block_type": ["mamba", "moe", "attention", "moe"],
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "ssm_state_size": 8, "mamba_num_heads": 4,
      "mamba_head_dim": 6, "n_groups": 2, "n_routed_experts": 4, "moe_intermediate_size": 8,
      "moe_shared_expert_intermediate_size": 12, "moe_latent_size": 8, "routed_scaling_factor": 1.5})"},
    {"qwen3_next", R"({"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "intermediate_size": 24, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 12,
      "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_experts": 4,
      "num_experts_per_tok": 2, "linear_key_head_dim": 4, "linear_value_head_dim": 4, "linear_num_key_heads": 2,
      "linear_num_value_heads": 6, "full_attention_interval": 2, "partial_rotary_factor": 0.5})"},
    {"qwen3_5", R"({"model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 8, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
      "linear_num_key_heads": 2, "linear_num_value_heads": 8,
      "rope_parameters": {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.5,
        "mrope_section": [1, 1, 0]},
      "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"]})"},
    {"qwen3_5_moe", R"({"model_type": "qwen3_5_moe_text", "architectures": ["Qwen3_5MoeForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 12, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2,
      "linear_key_head_dim": 4, "linear_value_head_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
      "full_attention_interval": 2, "rope_parameters": {"rope_type": "default", "rope_theta": 10000,
        "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 0]}})"},
    {"deepseek_v2", R"({"model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "intermediate_size": 24, "moe_intermediate_size": 8, "num_hidden_layers": 2,
      "num_attention_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "kv_lora_rank": 12, "q_lora_rank": 8,
      "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 5, "first_k_dense_replace": 1})"},
    {"deepseek_v3", R"({"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "intermediate_size": 24, "moe_intermediate_size": 8, "num_hidden_layers": 2,
      "num_attention_heads": 4, "n_routed_experts": 8, "num_experts_per_tok": 2, "kv_lora_rank": 12, "q_lora_rank": 8,
      "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 5, "first_k_dense_replace": 1, "n_group": 2,
      "topk_group": 1, "max_position_embeddings": 64, "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000,
        "factor": 4, "original_max_position_embeddings": 16, "mscale": 1, "mscale_all_dim": 1}})"},
    {"glm4_moe", R"({"model_type": "glm4_moe", "architectures": ["Glm4MoeForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "intermediate_size": 24, "moe_intermediate_size": 8, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "n_routed_experts": 4,
      "num_experts_per_tok": 2, "first_k_dense_replace": 1, "use_qk_norm": true, "attention_bias": true})"},
    {"exaone4", R"({"model_type": "exaone4", "architectures": ["Exaone4ForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "sliding_window": null, "layer_types": ["full_attention", "full_attention"]})"},
    {"olmo3", R"({"model_type": "olmo3", "architectures": ["Olmo3ForCausalLM"], "vocab_size": 37, "hidden_size": 16,
      "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 4, "sliding_window": 5})"},
    {"smollm3", R"({"model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "pad_token_id": 0})"},
    {"hunyuan_v1_dense", R"({"model_type": "hunyuan_v1_dense", "architectures": ["HunYuanDenseV1ForCausalLM"],
      "vocab_size": 37, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 8,
      "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000, "alpha": 50, "factor": 1}})"},
    {"mpt", R"({"model_type": "mpt", "architectures": ["MptForCausalLM"], "vocab_size": 37, "d_model": 16,
      "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "attn_config": {"clip_qkv": 0.5}})"},
    {"falcon_7b", R"({"model_type": "falcon", "architectures": ["FalconForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4})"},
    {"falcon_40b", R"({"model_type": "falcon", "architectures": ["FalconForCausalLM"], "vocab_size": 37,
      "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6, "num_kv_heads": 2,
      "new_decoder_architecture": true})"},
    {"minicpm3", R"({"model_type": "minicpm3", "architectures": ["MiniCPM3ForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 12, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4})"},
    {"gpt_oss", R"({"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "vocab_size": 37,
      "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5,
      "max_position_embeddings": 64, "rope_parameters": {"rope_type": "yarn", "rope_theta": 150000, "factor": 4,
        "original_max_position_embeddings": 16}})"},
    {"bert", R"({"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 37, "hidden_size": 48,
      "intermediate_size": 88, "num_hidden_layers": 2, "num_attention_heads": 6, "max_position_embeddings": 40,
      "type_vocab_size": 3})"},
    {"t5", R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 37, "d_model": 48,
      "d_kv": 20, "d_ff": 64, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 6,
      "relative_attention_num_buckets": 8})"},
    {"t5_gated", R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 37,
      "d_model": 48, "d_kv": 20, "d_ff": 64, "num_layers": 2, "num_heads": 6, "relative_attention_num_buckets": 8,
      "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})"},
    {"t5_encoder", R"({"model_type": "t5", "architectures": ["T5EncoderModel"], "vocab_size": 37, "d_model": 48,
      "d_kv": 20, "d_ff": 64, "num_layers": 2, "num_heads": 6, "feed_forward_proj": "gated-gelu"})"},
};
INSTANTIATE_TEST_SUITE_P(Families, GgufFamily, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

std::string config_of(const std::string& name) {
  return std::find_if(std::begin(kCases), std::end(kCases), [&](const auto& one) { return name == one.name; })->config;
}

// Written and read by one table, names could be wrong alike: these are llama.cpp's.
TEST(GgufNames, OfT5AreThoseOfLlamaCpp) {
  const test::TemporaryFolder folder;
  save_random(config_of("t5_gated"), folder.path());
  const fs::path path = folder / "made.gguf";
  quantize_model(folder.string(), path.string(), {.format = "gguf", .type = "f32"});
  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.get_string("general.architecture"), "t5");
  EXPECT_EQ(file.get_int("t5.attention.relative_buckets_count"), 8);
  for (const char* name : {"token_embd.weight", "output.weight", "enc.output_norm.weight", "dec.output_norm.weight",
                           "enc.blk.0.attn_rel_b.weight", "enc.blk.1.attn_q.weight", "enc.blk.1.ffn_gate.weight",
                           "enc.blk.1.ffn_norm.weight", "dec.blk.0.attn_rel_b.weight", "dec.blk.1.attn_norm.weight",
                           "dec.blk.1.cross_attn_norm.weight", "dec.blk.1.cross_attn_o.weight",
                           "dec.blk.1.ffn_up.weight", "dec.blk.1.ffn_down.weight"})
    EXPECT_NE(file.find(name), nullptr) << name;
}

TEST(GgufNames, OfExpertsStandTogether) {
  const test::TemporaryFolder folder;
  save_random(config_of("mixtral"), folder.path());
  const fs::path path = folder / "made.gguf";
  quantize_model(folder.string(), path.string(), {.format = "gguf", .type = "q8_0"});
  const GgufFile file = GgufFile::open(path);
  const GgufTensor* up = file.find("blk.1.ffn_up_exps.weight");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->shape, (std::vector<int64_t>{3, 64, 32}));
  EXPECT_EQ(file.find("blk.1.ffn_gate_inp.weight")->type, 0u) << "routers stay as they are";
}

// Names, shapes and keys of gguf-py and of llama.cpp's loader.
TEST(GgufNames, OfQwenExpertsAreThoseOfLlamaCpp) {
  const test::TemporaryFolder folder;
  save_random(config_of("qwen2_moe"), folder.path());
  const fs::path path = folder / "made.gguf";
  quantize_model(folder.string(), path.string(), {.format = "gguf", .type = "q8_0"});
  const GgufFile file = GgufFile::open(path);
  using Shape = std::vector<int64_t>;
  for (const auto& [name, shape] : {std::pair<const char*, Shape>{"blk.1.ffn_gate_exps.weight", {3, 32, 48}},
                                    {"blk.1.ffn_down_exps.weight", {3, 48, 32}},
                                    {"blk.0.ffn_gate_inp.weight", {3, 48}},
                                    {"blk.0.ffn_gate_inp_shexp.weight", {48}},
                                    {"blk.0.ffn_up_shexp.weight", {64, 48}},
                                    {"blk.0.ffn_down_shexp.weight", {48, 64}},
                                    {"blk.0.attn_q.bias", {48}}}) {
    const GgufTensor* tensor = file.find(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->shape, shape) << name;
  }
  for (const auto& [key, value] : {std::pair{"expert_count", 3},
                                   {"expert_used_count", 2},
                                   {"expert_feed_forward_length", 32},
                                   {"expert_shared_feed_forward_length", 64},
                                   {"feed_forward_length", 60}})
    EXPECT_EQ(file.get_int(std::string("qwen2moe.") + key), value) << key;
}

// Shapes of llama.cpp's loader, where those of the checkpoint are others.
TEST(GgufNames, OfStatesAndLatentAttentionAreThoseOfLlamaCpp) {
  const auto shapes = [](const std::string& family,
                         std::initializer_list<std::pair<const char*, std::vector<int64_t>>> expected) {
    const test::TemporaryFolder folder;
    save_random(config_of(family), folder.path());
    const fs::path path = folder / "made.gguf";
    quantize_model(folder.string(), path.string(), {.format = "gguf", .type = "f32"});
    const GgufFile file = GgufFile::open(path);
    for (const auto& [name, shape] : expected) {
      const GgufTensor* tensor = file.find(name);
      ASSERT_NE(tensor, nullptr) << family << " " << name;
      EXPECT_EQ(tensor->shape, shape) << family << " " << name;
    }
  };
  shapes("mamba", {{"blk.0.ssm_a", {32, 5}}, {"blk.0.ssm_d", {32}}, {"blk.0.ssm_conv1d.weight", {32, 3}}});
  shapes("mamba2", {{"blk.0.ssm_a", {4, 1}}, {"blk.0.ssm_norm.weight", {2, 16}}, {"blk.0.ssm_dt.bias", {4}}});
  shapes("qwen3_next",
         {{"blk.0.attn_qkv.weight", {40, 16}}, {"blk.0.attn_gate.weight", {24, 16}}, {"blk.0.ssm_a", {6}}});
  shapes(
      "deepseek_v3",
      {{"blk.1.attn_k_b.weight", {4, 12, 6}}, {"blk.1.attn_v_b.weight", {4, 5, 12}}, {"blk.1.exp_probs_b.bias", {8}}});
  shapes("nemotron_h_with_experts", {{"blk.1.exp_probs_b.bias", {4}}, {"blk.1.ffn_latent_down.weight", {8, 16}}});
}

// A file of one more tensor, of so many numbers, which lies where the first one does.
std::string with_one_more_tensor(const std::string& bytes, const std::string& name, int64_t extent) {
  const GgufFile file = GgufFile::parse(std::as_bytes(std::span(bytes)), "made", nullptr);
  const auto put = [](std::string& to, auto value) { to.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  std::string first, added;
  put(first, uint64_t{file.tensors()[0].name.size()}), first += file.tensors()[0].name;
  put(added, uint64_t{name.size()}), added += name;
  put(added, uint32_t{1}), put(added, extent), put(added, uint32_t{0}), put(added, uint64_t{0});
  const size_t begin = bytes.find(first);
  size_t end = begin;
  for (const GgufTensor& tensor : file.tensors()) end += 8 + tensor.name.size() + 4 + 8 * tensor.shape.size() + 4 + 8;
  std::string made = bytes.substr(0, begin) + added + bytes.substr(begin, end - begin);
  ++made[8];  // the number of tensors: its last byte
  made.resize((made.size() + 31) / 32 * 32);
  return made + bytes.substr((end + 31) / 32 * 32);
}

// A bias, a scale or a layer that the model does not have would be left out of what it computes.
TEST_P(GgufFamily, ATensorThatTheModelDoesNotReadIsRefusedByName) {
  const test::TemporaryFolder folder;
  save_random(GetParam().config, folder.path());
  const fs::path path = folder / "made.gguf", other = folder / "other.gguf";
  quantize_model(folder.string(), path.string(), {.format = "gguf", .type = "f32"});
  const std::string bytes = read_file(path);
  const GgufFile file = GgufFile::open(path);
  ASSERT_LT(file.tensors().size(), 255u);
  size_t tried = 0;
  const auto expect_refused = [&](const std::string& name, int64_t extent) {
    if (file.find(name)) return;
    ++tried;
    write_file(other, with_one_more_tensor(bytes, name, extent));
    const std::string refusal = message_of([&] { Model::from_pretrained(other.string()); });
    EXPECT_NE(refusal.find("other.gguf: tensor '"), std::string::npos) << name << ": " << refusal;
  };
  expect_refused("more.weight", 1);
  for (const GgufTensor& tensor : file.tensors()) {
    const bool last_layer = tensor.name.find("blk.1.") != std::string::npos;
    if (!last_layer || !tensor.name.ends_with(".weight") || tensor.shape.size() != 2) continue;
    const std::string module = tensor.name.substr(0, tensor.name.size() - 6);
    expect_refused(module + "bias", tensor.shape[0]);
    if (tried < 3) expect_refused(module + "scale", 1);
  }
  EXPECT_GE(tried, 3u);
}

TEST(GgufModels, WhatTheFileCannotSayIsRefused) {
  const auto refusal = [](const std::string& family, const char* field, const Json& value) {
    const test::TemporaryFolder folder;
    Json config = parse_json(config_of(family), "config");
    config[field] = value;
    save_random(dump_json(config), folder.path());
    return message_of(
        [&] { quantize_model(folder.string(), (folder / "made.gguf").string(), {.format = "gguf", .type = "f32"}); });
  };
  EXPECT_NE(refusal("gemma2", "query_pre_attn_scalar", 24).find("query_pre_attn_scalar: 24 cannot be written as GGUF"),
            std::string::npos);
  EXPECT_NE(refusal("llama", "hidden_act", "gelu").find("hidden_act: \"gelu\" cannot"), std::string::npos);
  EXPECT_NE(refusal("t5", "relative_attention_max_distance", 64).find("relative_attention_max_distance: 64 cannot"),
            std::string::npos);
  // llama.cpp has experts in every layer, and one way to weigh them for each of the two.
  EXPECT_NE(refusal("qwen3_moe", "norm_topk_prob", false).find("norm_topk_prob: false cannot be written as GGUF"),
            std::string::npos);
  EXPECT_NE(refusal("qwen2_moe", "norm_topk_prob", true).find("norm_topk_prob: true cannot be written as GGUF"),
            std::string::npos);
  EXPECT_NE(refusal("qwen3_moe", "mlp_only_layers", Json::array({0})).find("mlp.gate_proj.weight: GGUF has no name"),
            std::string::npos);
  EXPECT_NE(refusal("falcon_mamba", "mixer_rms_eps", 1e-6).find("mixer_rms_eps"), std::string::npos);
  EXPECT_NE(refusal("deepseek_v2", "topk_method", "group_limited_greedy").find("topk_method: "), std::string::npos);
  EXPECT_NE(refusal("minicpm3", "scale_emb", 10).find("scale_emb: '10' cannot"), std::string::npos);
  EXPECT_NE(refusal("qwen3_next", "linear_value_head_dim", 8).find("linear_value_head_dim: '8' cannot"),
            std::string::npos);
  EXPECT_NE(refusal("gpt2", "scale_attn_by_inverse_layer_idx", true).find("scale_attn_by_inverse_layer_idx"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
