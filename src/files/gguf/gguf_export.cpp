// SPDX-License-Identifier: Apache-2.0
#include "files/gguf/gguf_export.h"

#include <algorithm>
#include <cmath>

#include "files/gguf/gguf_family.h"
#include "files/gguf/gguf_fields.h"
#include "files/gguf/gguf_rotary_export.h"

namespace transom {
namespace {

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
  // Beside feed_forward_proj, whose word for the activation it overrules.
  if (!config.contains("feed_forward_proj") || !config["feed_forward_proj"].is_string()) return;
  const auto whole = config["feed_forward_proj"].get<std::string>();
  const std::string said = whole == "gated-gelu" ? "gelu_new" : whole.substr(whole.rfind('-') + 1);
  if (config.contains("dense_act_fn") && config["dense_act_fn"].is_string() && config["dense_act_fn"] != said)
    refuse("dense_act_fn", config["dense_act_fn"], family.architecture);
}

void refuse_where_true(const Json& config, const std::string& architecture, std::initializer_list<const char*> fields) {
  for (const char* field : fields)
    if (truth_of(config, field, false)) refuse(field, config[field], architecture);
}

void check_fixed(const Json& config, const GgufFamily& family) {
  for (const GgufFixed& fixed : family.fixed) {
    const Json usual = parse_json(fixed.usual.empty() ? fixed.value : fixed.usual, "a family's record");
    if (const Json found = config.value(fixed.field, usual); found != parse_json(fixed.value, "a family's record"))
      refuse(fixed.field.c_str(), found, family.architecture);
  }
}

// ---- numbers

// What config.json says under a key's names; null where it is silent.
Json stated(const Json& config, const GgufKey& key) {
  for (const std::string& name : key.older)
    if (config.contains(name) && config[name].is_number()) return config[name];
  if (key.field.empty() || !config.contains(key.field)) return nullptr;
  const Json& found = config[key.field];
  const bool fits = key.kind == GgufKey::Kind::kTruth ? found.is_boolean()
                    : key.kind == GgufKey::Kind::kNumber || key.kind == GgufKey::Kind::kNumberIfAny ||
                            key.kind == GgufKey::Kind::kNumberAbove0
                        ? found.is_number()
                        : found.is_number_integer();
  return fits ? found : Json(nullptr);
}

double number_of_key(const Json& config, const GgufFamily& family, const std::string& name) {
  const auto key =
      std::find_if(family.keys.begin(), family.keys.end(), [&](const auto& each) { return each.key == name; });
  if (key == family.keys.end()) fail(ErrorKind::kInternal, "{} has no key {} in GGUF", family.architecture, name);
  if (const Json found = stated(config, *key); found.is_number()) return found.get<double>();
  const bool is_null = config.contains(key->field) && config[key->field].is_null();
  const GgufUsual& usual = is_null && key->where_null ? *key->where_null : key->written;
  if (usual.is == GgufUsual::Is::kNumber) return usual.number;
  if (usual.is != GgufUsual::Is::kKey) fail("config.json: {} is missing", key->field);
  const double number = usual.number * number_of_key(config, family, usual.key);
  if (usual.divisor.empty()) return number;
  const double divisor = number_of_key(config, family, usual.divisor);
  if (divisor <= 0) fail("config.json: {}: expected a number above 0, found {}", usual.divisor, divisor);
  return std::floor(number / divisor);
}

void add_key(GgufWriter& writer, const std::string& a, const Json& config, const GgufFamily& family,
             const GgufKey& key) {
  using Kind = GgufKey::Kind;
  const std::string name = key.key.starts_with("tokenizer.") ? key.key : a + "." + key.key;
  const bool is_silent = stated(config, key).is_null();
  if (key.kind == Kind::kTruth) {
    const Json found = stated(config, key);
    return writer.add_bool(name, found.is_boolean() ? found.get<bool>() : key.written.number != 0);
  }
  // A field that is there and says null has none of it.
  const bool has_none = is_silent && (key.written.is == GgufUsual::Is::kNothing || config.contains(key.field));
  const bool is_optional = key.kind == Kind::kCountIfAny || key.kind == Kind::kNumberIfAny;
  if (is_optional && has_none) return;
  const double number = key.kind == Kind::kNumberAbove0 && has_none ? 0 : number_of_key(config, family, key.key);
  if (is_optional && number <= 0) return;
  if (key.kind == Kind::kNumberAbove0 && number <= 0)
    refuse(key.field.c_str(), config.value(key.field, Json()), family.architecture);
  if (key.kind == Kind::kCount || key.kind == Kind::kCountIfAny) writer.add_count(name, static_cast<int64_t>(number));
  else writer.add_float(name, number);
}

// A value of more_keys.
void add_value(GgufWriter& writer, const std::string& key, const Json& value) {
  if (value.is_boolean()) return writer.add_bool(key, value.get<bool>());
  if (value.is_number_integer()) return writer.add_count(key, value.get<int64_t>());
  if (value.is_number()) return writer.add_float(key, value.get<double>());
  if (value.is_string()) return writer.add_string(key, value.get<std::string>());
  if (!value.is_array() || value.empty()) fail(ErrorKind::kInternal, "{}: {} has no type of GGUF", key, value.dump());
  if (value[0].is_boolean()) return writer.add_bools(key, value.get<std::vector<bool>>());
  if (value[0].is_number_float()) return writer.add_floats(key, value.get<std::vector<float>>());
  writer.add_ints(key, value.get<std::vector<int64_t>>());
}

// ---- layers with a window, and others

// One layer of so many sees all: of layer_types, or as the family has it.
int64_t sliding_pattern(const Json& config, const GgufFamily& family, int64_t layers) {
  const GgufWindows& windows = *family.windows;
  if (!config.contains("layer_types") || !config["layer_types"].is_array())
    return windows.is_written ? count_of(config, {"sliding_window_pattern"}, windows.pattern) : windows.pattern;
  const Json& types = config["layer_types"];
  const auto slides = [&](int64_t i) { return types[static_cast<size_t>(i)] == "sliding_attention"; };
  const auto same = [&](int64_t pattern) {
    for (int64_t i = 0; i < layers; ++i)
      if (slides(i) != (pattern > 0 && (i + 1) % pattern != 0)) return false;
    return true;
  };
  if (static_cast<int64_t>(types.size()) == layers) {
    if (same(windows.pattern)) return windows.pattern;
    for (int64_t pattern = 0; pattern <= layers + 1 && windows.is_written; ++pattern)
      if (same(pattern)) return pattern;
  }
  refuse("layer_types", types, family.architecture);
}

void check_query_scale(const Json& config, const GgufFamily& family) {
  const auto number = [&](const char* key) { return static_cast<int64_t>(number_of_key(config, family, key)); };
  const bool largest = number("block_count") == *family.layers_of_largest;
  const auto scale = static_cast<double>(largest ? number("embedding_length") / number("attention.head_count")
                                                 : number("attention.key_length"));
  if (number_of(config, {"query_pre_attn_scalar"}, 256) != scale)
    refuse("query_pre_attn_scalar", config.value("query_pre_attn_scalar", Json(256)), family.architecture);
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
  const GgufFamily& family = gguf_family(config);
  if (family.architecture_of) return family.architecture_of(config);
  const bool encoder = !family.encoder_class.empty() && config.contains("architectures") &&
                       config["architectures"].is_array() && !config["architectures"].empty() &&
                       config["architectures"][0] == family.encoder_class;
  return encoder ? family.encoder_architecture : family.architecture;
}

void add_gguf_config(GgufWriter& writer, const Json& config) {
  const GgufFamily& family = gguf_family(config);
  const std::string a = gguf_architecture(config);
  check_activation(config, family);
  check_fixed(config, family);
  refuse_where_true(config, a,
                    {"use_sliding_window", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "is_decoder",
                     "apply_residual_connection_post_layernorm", "use_bidirectional_attention"});
  writer.add_string("general.architecture", a);
  writer.add_string("general.type", "model");
  if (const std::string name = text_of(config, {"_name_or_path"}, ""); !name.empty())
    writer.add_string("general.name", fs::path(name).filename().string());
  writer.add_count("general.quantization_version", 2);
  if (!family.encoder_architecture.empty()) return add_t5(writer, a, config);
  for (const GgufKey& key : family.keys) add_key(writer, a, config, family, key);
  const Json more = family.more_keys ? family.more_keys(config) : Json::object();
  for (const auto& [key, value] : more.items()) add_value(writer, a + "." + key, value);
  const auto find = [&](const char* name) {
    return std::find_if(family.keys.begin(), family.keys.end(), [&](const GgufKey& key) { return key.key == name; });
  };
  if (const auto key = find("attention.head_count"); key != family.keys.end() && !key->field.empty())
    if (const double heads = number_of_key(config, family, "attention.head_count"); heads <= 0)
      fail("config.json: num_attention_heads: expected a number above 0, found {}", heads);
  if (family.layers_of_largest) check_query_scale(config, family);
  if (family.windows) {
    const auto layers = static_cast<int64_t>(number_of_key(config, family, "block_count"));
    const int64_t pattern = sliding_pattern(config, family, layers);
    if (family.windows->is_written) writer.add_count(a + ".attention.sliding_window_pattern", pattern);
  }
  if (!family.rotary) return;
  const bool has_width = find("attention.key_length") != family.keys.end();
  const auto width = has_width ? static_cast<int64_t>(number_of_key(config, family, "attention.key_length"))
                               : more.value("rope.dimension_count", int64_t{0});
  add_gguf_rotary(writer, a, config, *family.rotary, width, more);
}

}  // namespace transom
