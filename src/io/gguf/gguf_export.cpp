// SPDX-License-Identifier: Apache-2.0
#include "io/gguf/gguf_export.h"

#include <algorithm>

#include "family/family.h"
#include "io/gguf/gguf_fields.h"
#include "io/gguf/gguf_rotary_export.h"

namespace transom {
namespace {

const GgufFamily& known_of(const Json& config) {
  const std::string type = text_of(config, {"model_type"}, "");
  if (const Family* family = find_family(type); family && *family->foreign.gguf) return **family->foreign.gguf;
  std::vector<std::string> names;
  for (const Family& family : families())
    if (*family.foreign.gguf) names.push_back(family.model_type);
  fail(ErrorKind::kUnsupported, "config.json: model_type {} cannot be written as GGUF; these can: {}", quoted(type),
       fmt::join(names, ", "));
}

[[noreturn]] void refuse(const char* field, const Json& found, const std::string& architecture) {
  fail(ErrorKind::kUnsupported, "config.json: {}: {} cannot be written as GGUF of {}, which has no key for it", field,
       found.dump(), architecture);
}

void check_activation(const Json& config, const GgufFamily& family) {
  for (const char* field : {"hidden_activation", "hidden_act", "activation_function", "feed_forward_proj"}) {
    if (!config.contains(field) || !config[field].is_string()) continue;
    // Gemma 2 and 3 have the second field from their base class, and do not read it.
    if (std::string_view(field) == "hidden_act" && config.contains("hidden_activation") &&
        config["hidden_activation"].is_string())
      continue;
    const auto name = config[field].get<std::string>();
    if (!family.activations.empty() &&
        std::find(family.activations.begin(), family.activations.end(), name) == family.activations.end())
      refuse(field, config[field], family.architecture);
  }
}

void refuse_where_true(const Json& config, const std::string& architecture, std::initializer_list<const char*> fields) {
  for (const char* field : fields)
    if (truth_of(config, field, false)) refuse(field, config[field], architecture);
}

// One layer of so many sees all: of layer_types, or as Gemma has it.
int64_t sliding_pattern(const Json& config, const std::string& a, int64_t layers) {
  const int64_t usual = a == "gemma2" ? 2 : 6;
  if (!config.contains("layer_types") || !config["layer_types"].is_array())
    return a == "gemma2" ? usual : count_of(config, {"sliding_window_pattern"}, usual);
  const Json& types = config["layer_types"];
  const auto slides = [&](int64_t i) { return types[static_cast<size_t>(i)] == "sliding_attention"; };
  const auto same = [&](int64_t pattern) {
    for (int64_t i = 0; i < layers; ++i)
      if (slides(i) != (pattern > 0 && (i + 1) % pattern != 0)) return false;
    return true;
  };
  if (static_cast<int64_t>(types.size()) == layers) {
    if (same(usual)) return usual;
    for (int64_t pattern = 0; pattern <= layers + 1 && a != "gemma2"; ++pattern)
      if (same(pattern)) return pattern;
  }
  refuse("layer_types", types, a);
}

void add_later_gemma(GgufWriter& writer, const std::string& a, const Json& config, int64_t head_width) {
  const int64_t layers = count_of(config, {"num_hidden_layers"}), width = count_of(config, {"hidden_size"}),
                heads = count_of(config, {"num_attention_heads"});
  const bool largest = layers == (a == "gemma2" ? 46 : 62);
  const auto scale = static_cast<double>(largest ? width / heads : head_width);
  if (number_of(config, {"query_pre_attn_scalar"}, 256) != scale)
    refuse("query_pre_attn_scalar", config.value("query_pre_attn_scalar", Json(256)), a);
  const int64_t pattern = sliding_pattern(config, a, layers);
  writer.add_count(a + ".attention.sliding_window", count_of(config, {"sliding_window"}, 4096));
  if (a == "gemma3") writer.add_count(a + ".attention.sliding_window_pattern", pattern);
  const auto cap = [&](const char* field, double otherwise) {
    const double found = config.contains(field) ? number_of(config, {field}, 0) : otherwise;
    if (found > 0) writer.add_float(a + "." + field, found);
    else if (a == "gemma2") refuse(field, config.value(field, Json()), a);  // llama.cpp takes 50 and 30 where none is
  };
  if (a == "gemma2") cap("attn_logit_softcapping", 50);
  cap("final_logit_softcapping", a == "gemma2" ? 30 : 0);
}

void add_t5(GgufWriter& writer, const std::string& a, const Json& config) {
  if (const int64_t farthest = count_of(config, {"relative_attention_max_distance"}, 128); farthest != 128)
    refuse("relative_attention_max_distance", farthest, a);
  const int64_t width = count_of(config, {"d_model"}, 512), layers = count_of(config, {"num_layers"}, 6),
                head_width = count_of(config, {"d_kv"}, 64), pad = count_of(config, {"pad_token_id"}, 0);
  const double epsilon = number_of(config, {"layer_norm_epsilon"}, 1e-6);
  writer.add_count(a + ".context_length", count_of(config, {"n_positions"}, 512));
  writer.add_count(a + ".embedding_length", width);
  writer.add_count(a + ".feed_forward_length", count_of(config, {"d_ff"}, 2048));
  writer.add_count(a + ".block_count", layers);
  if (a == "t5") writer.add_count(a + ".decoder_block_count", count_of(config, {"num_decoder_layers"}, layers));
  writer.add_count(a + ".attention.head_count", count_of(config, {"num_heads"}, 8));
  writer.add_count(a + ".attention.key_length", head_width);
  writer.add_count(a + ".attention.value_length", head_width);
  writer.add_float(a + ".attention.layer_norm_epsilon", epsilon);
  writer.add_float(a + ".attention.layer_norm_rms_epsilon", epsilon);
  writer.add_count(a + ".attention.relative_buckets_count", count_of(config, {"relative_attention_num_buckets"}, 32));
  writer.add_count(a + ".decoder_start_token_id", count_of(config, {"decoder_start_token_id"}, pad));
  writer.add_count(a + ".vocab_size", count_of(config, {"vocab_size"}));
}

}  // namespace

std::string gguf_architecture(const Json& config) {
  const std::string architecture = known_of(config).architecture;
  const bool encoder = config.contains("architectures") && config["architectures"].is_array() &&
                       !config["architectures"].empty() && config["architectures"][0] == "T5EncoderModel";
  return architecture == "t5" && encoder ? "t5encoder" : architecture;
}

GgufTraits gguf_traits(const Json& config) {
  return {.experts = text_of(config, {"model_type"}, "") == "mixtral",
          .gated = text_of(config, {"feed_forward_proj"}, "relu").starts_with("gated")};
}

void add_gguf_config(GgufWriter& writer, const Json& config) {
  const std::string a = gguf_architecture(config), type = text_of(config, {"model_type"}, "");
  check_activation(config, known_of(config));
  refuse_where_true(config, a,
                    {"use_sliding_window", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "is_decoder",
                     "apply_residual_connection_post_layernorm", "use_bidirectional_attention"});
  writer.add_string("general.architecture", a);
  writer.add_string("general.type", "model");
  if (const std::string name = text_of(config, {"_name_or_path"}, ""); !name.empty())
    writer.add_string("general.name", fs::path(name).filename().string());
  writer.add_count("general.quantization_version", 2);
  if (a.starts_with("t5")) return add_t5(writer, a, config);
  const int64_t width = count_of(config, {"n_embed", "hidden_size", "n_embd"}),
                heads = count_of(config, {"num_attention_heads", "n_head"});
  if (heads <= 0) fail("config.json: num_attention_heads: expected a number above 0, found {}", heads);
  const int64_t usual = a.starts_with("gemma") ? 256 : a == "qwen3" ? 128 : width / heads;
  const int64_t head_width = a == "bert" || a == "bloom" || a == "gptneox" || a == "gpt2"
                                 ? width / heads
                                 : count_of(config, {"head_dim"}, usual);
  writer.add_count(a + ".block_count", count_of(config, {"num_hidden_layers", "n_layer"}));
  writer.add_count(a + ".context_length",
                   count_of(config, {"max_position_embeddings", "n_positions", "seq_length"}, 2048));
  writer.add_count(a + ".embedding_length", width);
  writer.add_count(a + ".feed_forward_length", count_of(config, {"intermediate_size", "n_inner"}, 4 * width));
  writer.add_count(a + ".attention.head_count", heads);
  writer.add_count(a + ".vocab_size", count_of(config, {"vocab_size"}));
  if (a == "gpt2" || a == "starcoder2" || a == "bloom" || a == "gptneox" || a == "bert")
    writer.add_float(
        a + ".attention.layer_norm_epsilon",
        number_of(config, {"layer_norm_epsilon", "norm_epsilon", "layer_norm_eps"}, a == "bert" ? 1e-12 : 1e-5));
  else
    writer.add_float(a + ".attention.layer_norm_rms_epsilon",
                     number_of(config, {"rms_norm_eps"}, a == "phi3" || type == "mixtral" ? 1e-5 : 1e-6));
  if (a == "gpt2" || a == "bloom") return;
  if (a == "bert") {
    writer.add_bool(a + ".attention.causal", false);
    writer.add_count("tokenizer.ggml.token_type_count", count_of(config, {"type_vocab_size"}, 2));
    return;
  }
  if (a == "gptneox") writer.add_bool(a + ".use_parallel_residual", truth_of(config, "use_parallel_residual", true));
  const bool has_usual_keys = (type == "mistral" || type == "mixtral") && !config.contains("num_key_value_heads");
  writer.add_count(a + ".attention.head_count_kv",
                   count_of(config, {"num_key_value_heads"}, has_usual_keys ? 8 : heads));
  writer.add_count(a + ".attention.key_length", head_width);
  writer.add_count(a + ".attention.value_length", head_width);
  if (type == "mixtral") {
    writer.add_count(a + ".expert_count", count_of(config, {"num_local_experts"}, 8));
    writer.add_count(a + ".expert_used_count", count_of(config, {"num_experts_per_tok"}, 2));
  }
  add_gguf_rotary(writer, a, config, head_width);
  const bool slides = type == "mistral" || type == "mixtral" || a == "starcoder2" || a == "phi3";
  if (const int64_t window =
          count_of(config, {"sliding_window"}, type == "mistral" && !config.contains("sliding_window") ? 4096 : 0);
      slides && window > 0)
    writer.add_count(a + ".attention.sliding_window", window);
  if (a == "gemma2" || a == "gemma3") add_later_gemma(writer, a, config, head_width);
}

}  // namespace transom
