// SPDX-License-Identifier: Apache-2.0
// config.json from the metadata of a GGUF file. Where Transformers' own reader of GGUF loses something (rope_freqs,
// soft caps, head widths, the number of positions), this one does not.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/json/json.h"
#include "family/family.h"
#include "io/gguf/gguf_keys.h"
#include "io/gguf/gguf_metadata.h"
#include "io/gguf/gguf_model.h"
#include "io/gguf/gguf_special_tokens.h"
#include "io/gguf/gguf_t5.h"

namespace transom {
namespace {

struct FileClass {
  std::string model_type, name;  // "llama", "LlamaForCausalLM"
};

// What the models of a file are, by the records of families. Errors: an unknown architecture.
FileClass class_of_architecture(const std::string& architecture, const GgufFile& file) {
  const bool encoder = architecture == "t5encoder";  // the first half of a t5
  std::vector<std::string> names;
  for (const Family& family : families()) {
    const std::optional<GgufFamily>& known = *family.foreign.gguf;
    if (!known || !known->owns_architecture) continue;
    if (encoder && known->architecture == "t5") return {family.model_type, "T5EncoderModel"};
    if (architecture == known->architecture) return {family.model_type, known->model_class};
    names.push_back(known->architecture);
  }
  names.emplace_back("t5encoder");
  fail("{}: general.architecture {} is not supported{} Known are: {}", file.where(), quoted(architecture),
       did_you_mean(architecture, names), fmt::join(names, ", "));
}

// Numbers of a small f32 tensor.
std::vector<double> numbers_of(const GgufFile& file, const char* name) {
  const GgufTensor* tensor = file.find(name);
  if (!tensor) return {};
  if (tensor->type != 0) fail("{}: tensor {}: expected F32", file.where(), quoted(name));
  std::vector<double> numbers;
  for (size_t i = 0; i < tensor->bytes.size() / 4; ++i) {
    float value;
    std::memcpy(&value, tensor->bytes.data() + 4 * i, 4);
    numbers.push_back(std::stod(fmt::format("{}", value)));
  }
  return numbers;
}

// The divisors of the frequencies that llama3's scaling gives (Grattafiori et al., 2024).
std::vector<double> llama3_divisors(double theta, double factor, double original, size_t pairs) {
  std::vector<double> result;
  for (size_t i = 0; i < pairs; ++i) {
    const double length = 2 * M_PI * std::pow(theta, static_cast<double>(i) / static_cast<double>(pairs));
    const double longest = original / 1, shortest = original / 4;
    if (length < shortest) result.push_back(1);
    else if (length > longest) result.push_back(factor);
    else {
      const double smooth = (original / length - 1) / (4 - 1);
      result.push_back(1 / ((1 - smooth) / factor + smooth));
    }
  }
  return result;
}

// rope_freqs.weight: as llama3 where its numbers are those of llama3's formula, else as they are (longrope, whose two
// sets are then one).
Json scaling_of_divisors(const std::vector<double>& divisors, double theta) {
  const double factor = *std::max_element(divisors.begin(), divisors.end());
  for (double original = 32; original <= 1 << 20; original *= 2) {
    const std::vector<double> expected = llama3_divisors(theta, factor, original, divisors.size());
    bool same = true;
    for (size_t i = 0; i < divisors.size(); ++i) same &= std::abs(divisors[i] - expected[i]) <= 1e-5 * expected[i];
    if (same && factor > 1)
      return {{"rope_type", "llama3"},
              {"factor", factor},
              {"low_freq_factor", 1.0},
              {"high_freq_factor", 4.0},
              {"original_max_position_embeddings", static_cast<int64_t>(original)}};
  }
  return {{"rope_type", "longrope"},
          {"factor", 1.0},
          {"attention_factor", 1.0},
          {"short_factor", divisors},
          {"long_factor", divisors}};
}

void add_rotary(const GgufKeys& keys, int64_t head_width, int64_t positions, Json& config) {
  const double theta = keys.number("rope.freq_base", 10000.0);
  Json scaling = Json::object();
  // As llama.cpp reads them: a factor alone is linear, of old files rope.scale_linear; attn_factor multiplies.
  const bool has_factor = keys.has("rope.scaling.factor") || keys.has("rope.scale_linear");
  const std::string kind = keys.text("rope.scaling.type", has_factor ? "linear" : "none");
  const double attention = keys.number("rope.scaling.attn_factor", 1.0);
  const std::vector<double> divisors = numbers_of(keys.file, "rope_freqs.weight"),
                            short_factors = numbers_of(keys.file, "rope_factors_short.weight"),
                            long_factors = numbers_of(keys.file, "rope_factors_long.weight");
  if (!short_factors.empty() && !long_factors.empty()) {
    scaling = {{"rope_type", "longrope"}, {"short_factor", short_factors}, {"long_factor", long_factors}};
    scaling["attention_factor"] = attention;
    config["original_max_position_embeddings"] = keys.integer("rope.scaling.original_context_length", positions);
  } else if (!divisors.empty()) {
    scaling = scaling_of_divisors(divisors, theta);
    if (scaling.contains("attention_factor")) scaling["attention_factor"] = attention;
  } else if (kind == "linear") {
    scaling = {{"rope_type", "linear"},
               {"factor", keys.number("rope.scaling.factor", keys.number("rope.scale_linear", 1.0))}};
  } else if (kind == "yarn") {
    const double factor = keys.number("rope.scaling.factor");
    scaling = {{"rope_type", "yarn"},
               {"factor", factor},
               {"original_max_position_embeddings", keys.integer("rope.scaling.original_context_length", positions)}};
    if (keys.has("rope.scaling.yarn_beta_fast")) scaling["beta_fast"] = keys.number("rope.scaling.yarn_beta_fast");
    if (keys.has("rope.scaling.yarn_beta_slow")) scaling["beta_slow"] = keys.number("rope.scaling.yarn_beta_slow");
    if (attention != 1) scaling["attention_factor"] = attention * (factor > 1 ? 0.1 * std::log(factor) + 1 : 1);
  } else if (kind != "none") {
    fail("{}: rope.scaling.type {} is not supported", keys.file.where(), quoted(kind));
  }
  if (attention != 1 && !scaling.contains("attention_factor"))
    fail(ErrorKind::kUnsupported, "{}: rope.scaling.attn_factor: expected 1 for this scaling, found {}",
         keys.file.where(), attention);
  if (scaling.empty()) scaling["rope_type"] = "default";
  scaling["rope_theta"] = theta;
  const int64_t turning = keys.integer("rope.dimension_count", head_width);
  if (turning != head_width && !keys.takes_partial_rotary())
    fail(ErrorKind::kUnsupported, "{}: rope.dimension_count: expected {}, the width of a head, found {}",
         keys.file.where(), head_width, turning);
  if (turning != head_width && head_width > 0)
    scaling["partial_rotary_factor"] = static_cast<double>(turning) / static_cast<double>(head_width);
  config["rope_parameters"] = std::move(scaling);
}

// The feed-forward width of GGUF's llama family and its attention.
void add_decoder(const GgufKeys& keys, Json& config) {
  const int64_t width = keys.integer("embedding_length"), heads = keys.integer("attention.head_count"),
                positions = keys.integer("context_length");
  if (heads <= 0) fail("{}: attention.head_count: expected a number above 0, found {}", keys.file.where(), heads);
  const int64_t head_width = keys.integer("attention.key_length", width / heads);
  config["hidden_size"] = width;
  config["intermediate_size"] = keys.integer("feed_forward_length");
  config["num_hidden_layers"] = keys.integer("block_count");
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = keys.integer("attention.head_count_kv", heads);
  config["head_dim"] = head_width;
  config["max_position_embeddings"] = positions;
  add_rotary(keys, head_width, positions, config);
}

void add_gemma(const GgufKeys& keys, const std::string& architecture, Json& config) {
  const int64_t head_width = config["head_dim"], heads = config["num_attention_heads"], width = config["hidden_size"];
  if (architecture == "gemma") {
    config["hidden_act"] = "gelu_pytorch_tanh";
    return;
  }
  config["hidden_activation"] = "gelu_pytorch_tanh";
  // Not stored: one over the root of the heads' width, but for Gemma 2 of 27 billion, which alone has 46 layers.
  const int64_t layers = config["num_hidden_layers"];
  const bool largest = (architecture == "gemma2" && layers == 46) || (architecture == "gemma3" && layers == 62);
  config["query_pre_attn_scalar"] = largest ? width / heads : head_width;
  config["sliding_window"] = keys.integer("attention.sliding_window", architecture == "gemma2" ? 4096 : 1024);
  const auto cap = [&](const char* key) { return keys.has(key) ? Json(keys.number(key)) : Json(nullptr); };
  config["final_logit_softcapping"] = cap("final_logit_softcapping");
  config["attn_logit_softcapping"] = cap("attn_logit_softcapping");
  // One layer of so many sees all; or, by layer, whether it slides.
  const std::vector<int64_t> patterns =
      keys.integers("attention.sliding_window_pattern", architecture == "gemma2" ? 2 : 6);
  if (patterns.size() != 1 && patterns.size() != static_cast<size_t>(layers))
    fail("{}: attention.sliding_window_pattern: expected 1 or {} numbers, found {}", keys.file.where(), layers,
         patterns.size());
  Json types = Json::array();
  for (int64_t i = 0; i < layers && i < 100'000; ++i) {
    const bool slides =
        patterns.size() == 1 ? patterns[0] > 0 && (i + 1) % patterns[0] != 0 : patterns[static_cast<size_t>(i)] != 0;
    types.push_back(slides ? "sliding_attention" : "full_attention");
  }
  config["layer_types"] = std::move(types);
  if (architecture != "gemma3") return;
  Json whole = std::move(config["rope_parameters"]);
  config["rope_parameters"] = {
      {"full_attention", std::move(whole)},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", keys.number("rope.freq_base_swa", 10000.0)}}}};
}

int64_t vocabulary_size(const GgufKeys& keys) {
  if (const GgufTensor* table = keys.file.find("token_embd.weight"); table && table->shape.size() == 2)
    return table->shape[0];
  const auto tokens = static_cast<int64_t>(keys.file.get_strings("tokenizer.ggml.tokens").size());
  return keys.integer("vocab_size", tokens);
}

bool has_biases(const GgufFile& file, const char* name) { return file.find(std::string("blk.0.") + name + ".bias"); }

}  // namespace

Json gguf_config(const GgufFile& file) {
  const std::string type = file.get_string("general.type", "model");
  if (type != "model") fail("{}: general.type: expected model, found {}", file.where(), quoted(type));
  const std::string architecture = file.get_string("general.architecture");
  const FileClass known = class_of_architecture(architecture, file);
  check_gguf_metadata(file);
  const GgufKeys keys(file);
  Json config{{"model_type", known.model_type}, {"architectures", Json::array({known.name})}};
  config["vocab_size"] = vocabulary_size(keys);
  config["tie_word_embeddings"] = file.find("output.weight") == nullptr;
  for (const auto& [key, field] :
       {std::pair{"bos", "bos_token_id"}, {"eos", "eos_token_id"}, {"padding", "pad_token_id"}})
    if (const auto id = gguf_special_id(file, key)) config[field] = *id;
    else config[field] = nullptr;
  if (architecture.starts_with("t5")) {
    add_gguf_t5(keys, config);
    return config;
  }
  if (architecture == "gpt2") {
    config["n_embd"] = keys.integer("embedding_length");
    config["n_layer"] = keys.integer("block_count");
    config["n_head"] = keys.integer("attention.head_count");
    config["n_positions"] = keys.integer("context_length");
    config["n_inner"] = keys.integer("feed_forward_length");
    config["layer_norm_epsilon"] = keys.number("attention.layer_norm_epsilon");
    config["activation_function"] = "gelu_new";
    return config;
  }
  if (architecture == "bloom") {
    config["hidden_size"] = keys.integer("embedding_length");
    config["n_layer"] = keys.integer("block_count");
    config["n_head"] = keys.integer("attention.head_count");
    config["layer_norm_epsilon"] = keys.number("attention.layer_norm_epsilon");
    return config;
  }
  add_decoder(keys, config);
  if (architecture == "bert") {
    config.erase("rope_parameters");
    config["layer_norm_eps"] = keys.number("attention.layer_norm_epsilon");
    config["type_vocab_size"] = keys.file.get_int("tokenizer.ggml.token_type_count", 2);
    config["hidden_act"] = "gelu";
    config["tie_word_embeddings"] = true;
    return config;
  }
  if (architecture == "gptneox") {
    config["layer_norm_eps"] = keys.number("attention.layer_norm_epsilon");
    config["attention_bias"] = has_biases(file, "attn_qkv");
    config["use_parallel_residual"] = keys.truth("use_parallel_residual", true);
    config["hidden_act"] = "gelu";
    config["rotary_emb_base"] = config["rope_parameters"]["rope_theta"];
    config["rotary_pct"] = config["rope_parameters"].value("partial_rotary_factor", 1.0);
    return config;
  }
  if (architecture == "starcoder2") {
    config["norm_epsilon"] = keys.number("attention.layer_norm_epsilon");
    config["use_bias"] = has_biases(file, "attn_q");
    config["hidden_act"] = "gelu_pytorch_tanh";
    config["sliding_window"] =
        keys.has("attention.sliding_window") ? Json(keys.integer("attention.sliding_window")) : Json(nullptr);
    return config;
  }
  config["rms_norm_eps"] = keys.number("attention.layer_norm_rms_epsilon");
  config["hidden_act"] = "silu";
  if (architecture.starts_with("gemma")) add_gemma(keys, architecture, config);
  if (architecture == "llama") {
    config["attention_bias"] = has_biases(file, "attn_q");
    config["mlp_bias"] = has_biases(file, "ffn_up");
    // LLaMA has no window; a file that names one is a Mistral.
    if (const int64_t window = keys.integer("attention.sliding_window", 0); window > 0) {
      config["model_type"] = "mistral", config["architectures"] = Json::array({"MistralForCausalLM"});
      config["sliding_window"] = window;
    }
    if (const int64_t experts = keys.integer("expert_count", 0); experts > 0) {
      config["model_type"] = "mixtral", config["architectures"] = Json::array({"MixtralForCausalLM"});
      config["num_local_experts"] = experts;
      config["num_experts_per_tok"] = keys.integer("expert_used_count");
      if (!config.contains("sliding_window")) config["sliding_window"] = nullptr;
    }
  }
  if (architecture == "phi3" && keys.has("attention.sliding_window"))
    config["sliding_window"] = keys.integer("attention.sliding_window");
  if (architecture.starts_with("qwen")) config["use_sliding_window"] = false;
  if (architecture == "qwen3" || architecture.starts_with("gemma"))
    config["attention_bias"] = has_biases(file, "attn_q");
  return config;
}

namespace {

// How an encoder's vectors of tokens become one, as sentence-transformers says it: llama.h's llama_pooling_type.
void add_pooling(const GgufFile& file, ContainerParts& parts) {
  const std::string key = file.get_string("general.architecture") + ".pooling_type";
  if (!file.has(key)) return;
  constexpr const char* kModes[] = {"", "mean", "cls", "lasttoken"};
  const int64_t kind = file.get_int(key);
  if (kind < 1 || kind > 3) return;  // none; or a rank by a head of its own
  const Json modules = Json::array(
      {{{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", "sentence_transformers.models.Transformer"}},
       {{"idx", 1}, {"name", "1"}, {"path", "1_Pooling"}, {"type", "sentence_transformers.models.Pooling"}}});
  parts["modules.json"] = dump_json(modules, 2) + "\n";
  parts["1_Pooling/config.json"] = dump_json(Json{{"pooling_mode", kModes[kind]}}, 2) + "\n";
}

// generation_config.json, as llama.cpp ends and samples: at each token that ends a turn or a text, and with the
// sampling that the file recommends.
void add_generation(const GgufFile& file, ContainerParts& parts) {
  const Json config = parse_json(parts["config.json"], "config.json");
  const std::string architecture = config["model_type"];
  if (architecture == "bert" || config["architectures"][0] == "T5EncoderModel") return;
  Json fields = Json::object();
  for (const char* name : {"bos_token_id", "pad_token_id", "decoder_start_token_id"})
    if (config.contains(name) && !config[name].is_null()) fields[name] = config[name];
  if (const std::vector<int64_t> ends = gguf_end_ids(file); ends.size() == 1) fields["eos_token_id"] = ends[0];
  else if (!ends.empty()) fields["eos_token_id"] = ends;
  else if (config.contains("eos_token_id") && !config["eos_token_id"].is_null())
    fields["eos_token_id"] = config["eos_token_id"];
  if (const auto suppressed = file.get_ints("tokenizer.ggml.suppress_tokens"); !suppressed.empty())
    fields["suppress_tokens"] = suppressed;
  const auto number = [&](const char* key, const char* name) {
    if (file.has(key)) fields[name] = std::stod(fmt::format("{}", static_cast<float>(file.get_float(key))));
  };
  number("general.sampling.temp", "temperature");
  number("general.sampling.top_p", "top_p"), number("general.sampling.min_p", "min_p");
  number("general.sampling.penalty_repeat", "repetition_penalty");
  if (const char* key = "general.sampling.top_k"; file.has(key)) fields["top_k"] = file.get_int(key);
  if (fields.contains("temperature") && fields["temperature"] == 0) fields.erase("temperature");
  else if (fields.contains("temperature") || fields.contains("top_p") || fields.contains("top_k"))
    fields["do_sample"] = true;
  parts["generation_config.json"] = dump_json(fields, 2) + "\n";
}

ContainerParts read_parts(const fs::path& path) {
  const GgufFile file = GgufFile::open(path);
  report_gguf_metadata(file);
  report_gguf_special_ids(file);
  ContainerParts parts{{"config.json", dump_json(gguf_config(file), 2) + "\n"}};
  add_gguf_tokenizer(file, parts);
  add_generation(file, parts);
  add_pooling(file, parts);
  return parts;
}

const RegisterContainer kRegistered(".gguf", "GGUF", read_parts);

}  // namespace
}  // namespace transom
