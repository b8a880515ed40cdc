// SPDX-License-Identifier: Apache-2.0
#include "io/gguf/gguf_export.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/json.h"

namespace transom {
namespace {

struct Known {
  const char *model_type, *architecture;
};
constexpr Known kKnown[] = {{"llama", "llama"}, {"mistral", "llama"}, {"qwen2", "qwen2"}, {"qwen3", "qwen3"},
                            {"gemma", "gemma"}, {"gemma2", "gemma2"}, {"gpt2", "gpt2"},   {"starcoder2", "starcoder2"}};

int64_t count_of(const Json& config, std::initializer_list<const char*> names, std::optional<int64_t> otherwise = {}) {
  for (const char* name : names)
    if (config.contains(name) && config[name].is_number_integer()) return config[name].get<int64_t>();
  if (!otherwise) fail("config.json: {} is missing", *names.begin());
  return *otherwise;
}

double number_of(const Json& config, std::initializer_list<const char*> names, double otherwise) {
  for (const char* name : names)
    if (config.contains(name) && config[name].is_number()) return config[name].get<double>();
  return otherwise;
}

std::string text_of(const Json& object, std::initializer_list<const char*> names, const std::string& otherwise) {
  for (const char* name : names)
    if (object.is_object() && object.contains(name) && object[name].is_string()) return object[name].get<std::string>();
  return otherwise;
}

// What the frequencies of llama3 are divided by (Grattafiori et al., 2024).
std::vector<float> llama3_divisors(const Json& scaling, double theta, int64_t width) {
  const double factor = number_of(scaling, {"factor"}, 8), low = number_of(scaling, {"low_freq_factor"}, 1),
               high = number_of(scaling, {"high_freq_factor"}, 4),
               original = number_of(scaling, {"original_max_position_embeddings"}, 8192);
  std::vector<float> divisors;
  for (int64_t i = 0; i < width; i += 2) {
    const double length = 2 * M_PI * std::pow(theta, static_cast<double>(i) / static_cast<double>(width));
    const double smooth = (original / length - low) / (high - low);
    const double divisor = length < original / high  ? 1
                           : length > original / low ? factor
                                                     : 1 / ((1 - smooth) / factor + smooth);
    divisors.push_back(static_cast<float>(divisor));
  }
  return divisors;
}

void add_rotary(GgufWriter& writer, const std::string& a, const Json& config, int64_t head_width) {
  Json scaling = Json::object();
  for (const char* name : {"rope_scaling", "rope_parameters"})
    if (config.contains(name) && config[name].is_object()) scaling = config[name];
  const double theta = number_of(scaling, {"rope_theta"}, number_of(config, {"rope_theta"}, 10000));
  writer.add_float(a + ".rope.freq_base", theta);
  writer.add_count(a + ".rope.dimension_count", head_width);
  const std::string kind = text_of(scaling, {"rope_type", "type"}, "default");
  if (kind == "default") return;
  if (kind == "llama3") {
    const std::vector<float> divisors = llama3_divisors(scaling, theta, head_width);
    writer.add_tensor("rope_freqs.weight", 0, {static_cast<int64_t>(divisors.size())}, [divisors] {
      std::vector<std::byte> bytes(divisors.size() * 4);
      std::memcpy(bytes.data(), divisors.data(), bytes.size());
      return bytes;
    });
    return;
  }
  if (kind != "linear" && kind != "yarn")
    fail(ErrorKind::kUnsupported,
         "config.json: rope type {} cannot be written as GGUF; default, linear, yarn and "
         "llama3 can",
         quoted(kind));
  writer.add_string(a + ".rope.scaling.type", kind);
  writer.add_float(a + ".rope.scaling.factor", number_of(scaling, {"factor"}, 1));
  if (kind == "yarn")
    writer.add_count(
        a + ".rope.scaling.original_context_length",
        count_of(scaling, {"original_max_position_embeddings"}, count_of(config, {"max_position_embeddings"})));
}

}  // namespace

std::string gguf_architecture(const Json& config) {
  const std::string type = text_of(config, {"model_type"}, "");
  std::vector<std::string> names;
  for (const Known& one : kKnown) {
    if (type == one.model_type) return one.architecture;
    names.emplace_back(one.model_type);
  }
  fail(ErrorKind::kUnsupported, "config.json: model_type {} cannot be written as GGUF; these can: {}", quoted(type),
       fmt::join(names, ", "));
}

void add_gguf_config(GgufWriter& writer, const Json& config) {
  const std::string a = gguf_architecture(config);
  writer.add_string("general.architecture", a);
  writer.add_string("general.type", "model");
  if (const std::string name = text_of(config, {"_name_or_path"}, ""); !name.empty())
    writer.add_string("general.name", fs::path(name).filename().string());
  writer.add_count("general.quantization_version", 2);
  const int64_t width = count_of(config, {"hidden_size", "n_embd"}),
                heads = count_of(config, {"num_attention_heads", "n_head"});
  if (heads <= 0) fail("config.json: num_attention_heads: expected a number above 0, found {}", heads);
  const int64_t head_width = count_of(config, {"head_dim"}, width / heads);
  writer.add_count(a + ".block_count", count_of(config, {"num_hidden_layers", "n_layer"}));
  writer.add_count(a + ".context_length", count_of(config, {"max_position_embeddings", "n_positions"}, 2048));
  writer.add_count(a + ".embedding_length", width);
  writer.add_count(a + ".feed_forward_length", count_of(config, {"intermediate_size", "n_inner"}, 4 * width));
  writer.add_count(a + ".attention.head_count", heads);
  writer.add_count(a + ".vocab_size", count_of(config, {"vocab_size"}));
  if (a == "gpt2" || a == "starcoder2")
    writer.add_float(a + ".attention.layer_norm_epsilon",
                     number_of(config, {"layer_norm_epsilon", "norm_epsilon"}, 1e-5));
  else writer.add_float(a + ".attention.layer_norm_rms_epsilon", number_of(config, {"rms_norm_eps"}, 1e-6));
  if (a == "gpt2") return;
  writer.add_count(a + ".attention.head_count_kv", count_of(config, {"num_key_value_heads"}, heads));
  writer.add_count(a + ".attention.key_length", head_width);
  writer.add_count(a + ".attention.value_length", head_width);
  add_rotary(writer, a, config, head_width);
  const bool slides = a == "gemma2" || (text_of(config, {"model_type"}, "") == "mistral") || a == "starcoder2";
  if (const int64_t window = count_of(config, {"sliding_window"}, 0); slides && window > 0)
    writer.add_count(a + ".attention.sliding_window", window);
  if (a == "qwen2" || a == "qwen3")
    if (config.value("use_sliding_window", false))
      fail(ErrorKind::kUnsupported, "config.json: use_sliding_window cannot be written as GGUF of {}", a);
  if (a != "gemma2") return;
  writer.add_float(a + ".attn_logit_softcapping", number_of(config, {"attn_logit_softcapping"}, 50));
  writer.add_float(a + ".final_logit_softcapping", number_of(config, {"final_logit_softcapping"}, 30));
}

}  // namespace transom
