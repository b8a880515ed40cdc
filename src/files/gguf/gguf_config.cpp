// SPDX-License-Identifier: Apache-2.0
// config.json from the metadata of a GGUF file. Where Transformers' own reader of GGUF loses something (rope_freqs,
// soft caps, head widths, the number of positions), this one does not.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/json/json.h"
#include "files/gguf/gguf_family.h"
#include "files/gguf/gguf_keys.h"
#include "files/gguf/gguf_metadata.h"
#include "files/gguf/gguf_model.h"
#include "files/gguf/gguf_special_tokens.h"
#include "files/gguf/gguf_t5.h"

namespace transom {
namespace {

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

Json scaling_of_factors(const std::vector<double>& divisors) {
  return {{"rope_type", "longrope"},
          {"factor", 1.0},
          {"attention_factor", 1.0},
          {"short_factor", divisors},
          {"long_factor", divisors}};
}

// Linear scaling besides: each frequency is divided by the factor as well.
std::vector<double> slowed_by(std::vector<double> divisors, double factor) {
  for (double& divisor : divisors) divisor *= factor;
  return divisors;
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
  return scaling_of_factors(divisors);
}

// `window_theta`: of layers with a window, where the file is silent; 0: that of all layers.
void add_rotary(const GgufKeys& keys, const GgufRotary& rotary, int64_t head_width, double window_theta, Json& config) {
  const int64_t positions = keys.integer("context_length");
  const double theta = keys.number("rope.freq_base", 10000.0);
  Json scaling = Json::object();
  // As llama.cpp reads them: a factor alone is linear, of old files rope.scale_linear; attn_factor multiplies.
  const bool has_factor = keys.has("rope.scaling.factor") || keys.has("rope.scale_linear");
  const std::string kind = keys.text("rope.scaling.type", has_factor ? "linear" : "none");
  const double attention = keys.number("rope.scaling.attn_factor", 1.0);
  const std::vector<double> divisors = numbers_of(keys.file, "rope_freqs.weight"),
                            short_factors = numbers_of(keys.file, "rope_factors_short.weight"),
                            long_factors = numbers_of(keys.file, "rope_factors_long.weight");
  // 0 stands for 1, as in llama.cpp, which scales with the factor beside longrope's tensors too.
  const double slower = kind == "linear" || kind == "longrope"
                            ? keys.number("rope.scaling.factor", keys.number("rope.scale_linear", 0.0))
                            : 0;
  const bool slows = slower != 0 && slower != 1;
  if (short_factors.empty() != long_factors.empty())
    fail("{}: expected rope_factors_short.weight and rope_factors_long.weight, found one of them", keys.file.where());
  if (short_factors.empty() ? kind == "yarn" && !divisors.empty() : slows || kind == "yarn" || !divisors.empty())
    fail(ErrorKind::kUnsupported, "{}: rope.scaling.type {}, rope.scaling.factor {} and {} scale positions; one can",
         keys.file.where(), quoted(kind), keys.number("rope.scaling.factor", 1.0),
         divisors.empty() ? "rope_factors_long.weight" : "rope_freqs.weight");
  if (!short_factors.empty()) {
    scaling = {{"rope_type", "longrope"}, {"short_factor", short_factors}, {"long_factor", long_factors}};
    scaling["attention_factor"] = attention;
    config["original_max_position_embeddings"] = keys.integer("rope.scaling.original_context_length", positions);
  } else if (!divisors.empty()) {
    scaling = slows ? scaling_of_factors(slowed_by(divisors, slower)) : scaling_of_divisors(divisors, theta);
    if (scaling.contains("attention_factor")) scaling["attention_factor"] = attention;
  } else if (kind == "linear") {
    scaling = {{"rope_type", "linear"}, {"factor", slower != 0 ? slower : 1.0}};
  } else if (kind == "yarn") {
    const double factor = keys.number("rope.scaling.factor");
    scaling = {{"rope_type", "yarn"},
               {"factor", factor},
               {"original_max_position_embeddings", keys.integer("rope.scaling.original_context_length", positions)}};
    if (keys.has("rope.scaling.yarn_beta_fast")) scaling["beta_fast"] = keys.number("rope.scaling.yarn_beta_fast");
    if (keys.has("rope.scaling.yarn_beta_slow")) scaling["beta_slow"] = keys.number("rope.scaling.yarn_beta_slow");
    // The record of a family without this key refuses it.
    if (const double multiplier = keys.number("rope.scaling.yarn_log_multiplier", 0.0); multiplier != 0)
      scaling["mscale"] = scaling["mscale_all_dim"] = std::stod(fmt::format("{}", static_cast<float>(multiplier * 10)));
    if (attention != 1) scaling["attention_factor"] = attention * (factor > 1 ? 0.1 * std::log(factor) + 1 : 1);
  } else if (kind != "none") {
    fail("{}: rope.scaling.type {} is not supported", keys.file.where(), quoted(kind));
  }
  if (attention != 1 && !scaling.contains("attention_factor"))
    fail(ErrorKind::kUnsupported, "{}: rope.scaling.attn_factor: expected 1 for this scaling, found {}",
         keys.file.where(), attention);
  if (scaling.empty()) scaling["rope_type"] = "default";
  scaling["rope_theta"] = theta;
  // Positions by time, height and width, and a fourth that nothing has.
  if (keys.has("rope.dimension_sections"))
    if (std::vector<int64_t> sections = keys.integers("rope.dimension_sections", 0); sections.size() == 4)
      scaling["mrope_section"] = {sections[0], sections[1], sections[2]};
  const int64_t turning = keys.integer("rope.dimension_count", head_width);
  if (turning != head_width && !rotary.turns_part)
    fail(ErrorKind::kUnsupported, "{}: rope.dimension_count: expected {}, the width of a head, found {}",
         keys.file.where(), head_width, turning);
  if (turning != head_width && head_width > 0)
    scaling["partial_rotary_factor"] = static_cast<double>(turning) / static_cast<double>(head_width);
  if (!rotary.theta_field.empty()) config[rotary.theta_field] = theta;
  if (!rotary.part_field.empty()) config[rotary.part_field] = scaling.value("partial_rotary_factor", 1.0);
  if (rotary.set_by_layers)
    scaling = {{"full_attention", std::move(scaling)},
               {"sliding_attention",
                {{"rope_type", "default"},
                 {"rope_theta", keys.number("rope.freq_base_swa", window_theta > 0 ? window_theta : theta)}}}};
  config["rope_parameters"] = std::move(scaling);
}

// ---- numbers

// A key of the record as the field of config.json has it.
Json field_of(const GgufKeys& keys, const GgufFamily& family, const GgufKey& key) {
  using Is = GgufUsual::Is;
  using Kind = GgufKey::Kind;
  const bool is_absolute = key.key.starts_with("tokenizer.");
  const bool is_there = is_absolute ? keys.file.has(key.key) : keys.has(key.key);
  if (!is_there && key.read.is == Is::kNull) return nullptr;
  if (!is_there && key.read.is == Is::kKey) {
    const auto other = [&](const std::string& name) {
      const auto found =
          std::find_if(family.keys.begin(), family.keys.end(), [&](const auto& each) { return each.key == name; });
      const int64_t number = field_of(keys, family, *found);
      if (number <= 0) fail("{}: {}: expected a number above 0, found {}", keys.file.where(), name, number);
      return number;
    };
    const auto number = static_cast<int64_t>(key.read.number) * other(key.read.key);
    return key.read.divisor.empty() ? number : number / other(key.read.divisor);
  }
  const std::optional<double> usual = key.read.is == Is::kNumber ? std::optional(key.read.number) : std::nullopt;
  if (key.kind == Kind::kTruth) return keys.truth(key.key, usual.value_or(0) != 0);
  if (key.kind == Kind::kNumber || key.kind == Kind::kNumberIfAny || key.kind == Kind::kNumberAbove0)
    return keys.number(key.key, usual);
  const std::optional<int64_t> count = usual ? std::optional(static_cast<int64_t>(*usual)) : std::nullopt;
  return is_absolute ? keys.file.get_int(key.key, count.value_or(0)) : keys.integer(key.key, count);
}

void add_keys(const GgufKeys& keys, const GgufFamily& family, Json& config) {
  for (const GgufKey& key : family.keys) {
    using Is = GgufUsual::Is;
    if (key.field.empty() || key.read.is == Is::kNotRead) continue;
    if (key.read.is == Is::kNothing && !keys.has(key.key)) continue;
    config[key.field] = field_of(keys, family, key);
    if (key.key == "attention.head_count" && !key.field.empty() && config[key.field] <= 0)
      fail("{}: attention.head_count: expected a number above 0, found {}", keys.file.where(),
           config[key.field].get<int64_t>());
  }
}

int64_t head_width_of(const GgufKeys& keys) {
  return keys.integer("attention.key_length", keys.integer("embedding_length") / keys.integer("attention.head_count"));
}

// What rotary positions turn a part of: a head; where the family's table has no width of heads, what the file says.
int64_t turned_width(const GgufKeys& keys, const GgufFamily& family) {
  const bool has_width = std::any_of(family.keys.begin(), family.keys.end(),
                                     [](const GgufKey& key) { return key.key == "attention.key_length"; });
  return has_width ? head_width_of(keys) : keys.integer("rope.dimension_count");
}

// ---- layers with a window, and others

void add_query_scale(const GgufKeys& keys, int64_t layers_of_largest, Json& config) {
  const bool largest = keys.integer("block_count") == layers_of_largest;
  config["query_pre_attn_scalar"] =
      largest ? keys.integer("embedding_length") / keys.integer("attention.head_count") : head_width_of(keys);
}

void add_windows(const GgufKeys& keys, const GgufWindows& windows, Json& config) {
  const int64_t layers = keys.integer("block_count");
  // One layer of so many sees all; or, by layer, whether it slides.
  const std::vector<int64_t> patterns = keys.integers("attention.sliding_window_pattern", windows.pattern);
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
}

int64_t vocabulary_size(const GgufKeys& keys) {
  if (const GgufTensor* table = keys.file.find("token_embd.weight"); table && table->shape.size() == 2)
    return table->shape[0];
  const auto tokens = static_cast<int64_t>(keys.file.get_strings("tokenizer.ggml.tokens").size());
  return keys.integer("vocab_size", tokens);
}

bool has_biases(const GgufFile& file, const std::string& name) { return file.find("blk.0." + name + ".bias"); }

}  // namespace

Json gguf_config(const GgufFile& file) {
  const std::string type = file.get_string("general.type", "model");
  if (type != "model") fail("{}: general.type: expected model, found {}", file.where(), quoted(type));
  const GgufClass known = gguf_class(file);
  const GgufFamily& family = *known.gguf;
  if (!family.more_keys) check_gguf_metadata(file, Json::object());
  const GgufKeys keys(file);
  Json config{{"model_type", known.model_type}, {"architectures", Json::array({known.model_class})}};
  config["vocab_size"] = vocabulary_size(keys);
  config["tie_word_embeddings"] = file.find("output.weight") == nullptr;
  for (const auto& [key, field] :
       {std::pair{"bos", "bos_token_id"}, {"eos", "eos_token_id"}, {"padding", "pad_token_id"}})
    if (const auto id = gguf_special_id(file, key)) config[field] = *id;
    else config[field] = nullptr;
  if (!family.encoder_architecture.empty()) {
    add_gguf_t5(keys, config);
    return config;
  }
  add_keys(keys, family, config);
  if (family.rotary) add_rotary(keys, *family.rotary, turned_width(keys, family), family.more_keys ? 0 : 10000, config);
  config.update(parse_json(family.stands_for, "a family's record"));
  for (const GgufFixed& fixed : family.fixed) config[fixed.field] = parse_json(fixed.value, "a family's record");
  for (const auto& [field, tensor] : family.biases) config[field] = has_biases(file, tensor);
  if (family.layers_of_largest) add_query_scale(keys, *family.layers_of_largest, config);
  if (family.windows) add_windows(keys, *family.windows, config);
  if (family.more_fields) config.update(family.more_fields(gguf_metadata_of(file)));
  if (family.more_keys) check_gguf_metadata(file, family.more_keys(config));
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
  const GgufFamily& family = *gguf_class(file).gguf;
  if (family.is_encoder || file.get_string("general.architecture") == family.encoder_architecture) return;
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
  const Json config = gguf_config(file);
  const GgufFamily& family = *gguf_class(file).gguf;
  const Json written = family.more_keys ? family.more_keys(config) : Json::object();
  report_gguf_metadata(file, &written);
  report_gguf_special_ids(file);
  ContainerParts parts{{"config.json", dump_json(config, 2) + "\n"}};
  add_gguf_tokenizer(file, parts);
  add_generation(file, parts);
  add_pooling(file, parts);
  return parts;
}

const RegisterContainer kRegistered(".gguf", "GGUF", read_parts);

}  // namespace
}  // namespace transom
