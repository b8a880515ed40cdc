// SPDX-License-Identifier: Apache-2.0
#include "models/described/family_schema.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

constexpr auto kNumber = SchemaOption::Kind::kNumber, kFlag = SchemaOption::Kind::kFlag,
               kText = SchemaOption::Kind::kText;

constexpr SchemaOption kDecoder[] = {
    {"vocabulary", kNumber, "\"$vocab_size\""},
    {"width", kNumber, "\"$hidden_size\""},
    {"layers", kNumber, "\"$num_hidden_layers\""},
    {"deviation", kNumber, "\"$initializer_range\""},
    {"stack", kText, "\"layers\""},
    {"final_norm", kText, "\"norm\""},
    {"max_positions", kNumber, "0"},
    {"takes_positions", kFlag, "true"},
    {"takes_types", kFlag, "false"},
    {"counts_padding", kFlag, "true"},
    {"parallel", kFlag, "false", true},
    {"attends", kFlag, "true", true},  // of a layer that has but one of the two parts
    {"feeds", kFlag, "true", true},
    {"residual_multiplier", kNumber, "1", true},
    {"block_scale", kText, "null"},  // a buffer of one number for each block
};
constexpr SchemaOption kEmbeddings[] = {
    {"module", kText, "\"embed_tokens\""}, {"padding", kNumber, "null"}, {"token_scale", kNumber, "1"},
    {"input_scale", kNumber, "1"},         {"norm", kText, "null"},      {"dropout", kNumber, "0"},
};
constexpr SchemaOption kNorm[] = {
    {"kind", kText, "\"rms\"", false, "rms layer"},
    {"epsilon", kNumber, "\"$rms_norm_eps\""},
    {"one_plus", kFlag, "false"},
    {"weight", kFlag, "true"},
    {"bias", kFlag, "false"},
};
constexpr SchemaOption kNorms[] = {
    {"before_attention", kText, "\"input_layernorm\"", true},
    {"after_attention", kText, "null", true},
    {"before_feed_forward", kText, "\"post_attention_layernorm\"", true},
    {"after_feed_forward", kText, "null", true},
    {"before_experts", kText, "null", true},  // beside a feed-forward layer: what experts read, and the router does not
    {"after_experts", kText, "null", true},
    {"after_beside", kText, "null", true},  // behind that feed-forward layer
};
// A layer that keeps a state of the text, in place of attention.
constexpr SchemaOption kMixer[] = {
    {"when", kFlag, "true", true},
    {"kind", kText, "", false, "short_convolution mamba1 mamba2 gated_delta"},
    {"module", kText, ""},
    {"taps", kNumber, ""},  // tokens that the convolution sees
    {"bias", kFlag, "false"},
    {"convolution_bias", kFlag, "true"},  // this and all that follows: of a scan with states
    {"heads", kNumber, "null"},
    {"head_size", kNumber, "null"},
    {"groups", kNumber, "1"},
    {"state", kNumber, "null"},
    {"rank", kNumber, "null"},  // of steps
    {"norms", kFlag, "false"},  // of steps, inputs and outputs
    {"joined", kFlag, "false"},
    {"grouped_norm", kFlag, "true"},
    {"activation", kText, "null"},  // null: that of the feed-forward layer
    {"least_step", kNumber, "null"},
    {"largest_step", kNumber, "null"},
};
constexpr SchemaOption kAttention[] = {
    {"heads", kNumber, "\"$num_attention_heads\"", true},
    {"key_value_heads", kNumber, R"({"first": ["$num_key_value_heads", "$num_attention_heads"]})", true},
    {"head_size", kNumber, R"({"whole_quotient": ["$hidden_size", "$num_attention_heads"]})", true},
    {"query", kText, "\"self_attn.q_proj\""},
    {"key", kText, "\"self_attn.k_proj\""},
    {"value", kText, "\"self_attn.v_proj\""},
    {"output", kText, "\"self_attn.o_proj\""},
    {"bias", kFlag, "false", true},
    {"output_bias", kFlag, "false", true},
    {"gated", kFlag, "false"},         // the layer of queries gives gates of the results beside them
    {"scale", kNumber, "null", true},  // null: 1 / sqrt(head_size)
    {"soft_cap", kNumber, "0", true},
    {"clip", kNumber, "0", true},
    {"window", kNumber, "0", true},
    {"sinks", kText, "null"},
    {"value_norm", kFlag, "false"},
    {"values_are_keys", kFlag, "false", true},  // before norms and positions
    {"dropout", kNumber, "\"$attention_dropout\""},
    {"output_dropout", kNumber, "0"},
};
constexpr SchemaOption kFused[] = {
    {"when", kFlag, "true"},
    {"module", kText, ""},
    {"layout", kText, "\"parts\"", false, "parts groups blocks"},
    {"blocks", kNumber, "1"},
};
constexpr SchemaOption kHeadNorms[] = {
    {"when", kFlag, "true", true},
    {"over", kText, "\"head\"", false, "head all_heads head_weights head_modules"},
    {"query", kText, "\"self_attn.q_norm\""},
    {"key", kText, "\"self_attn.k_norm\""},
    {"bias", kFlag, "null"},  // null: as the other norms
    {"epsilon", kNumber, "null"},
    {"after_rotary", kFlag, "false"},
};
constexpr SchemaOption kLatent[] = {
    {"when", kFlag, "true"},
    {"query_rank", kNumber, R"({"first": ["$q_lora_rank", 0]})"},
    {"rank", kNumber, "\"$kv_lora_rank\""},
    {"plain", kNumber, "\"$qk_nope_head_dim\""},
    {"turning", kNumber, "\"$qk_rope_head_dim\""},
    {"value_size", kNumber, "\"$v_head_dim\""},
    {"epsilon", kNumber, "1e-6"},  // of the norms of latent vectors
    {"scaled", kFlag, "true"},     // scores, where mscale_all_dim of rotary positions says so
};
// Layers that read the keys and values of the last layer of their kind before them that has its own.
constexpr SchemaOption kShared[] = {
    {"when", kFlag, "true", true},  // of which layers
    {"kind", kText, "", true},
};
constexpr SchemaOption kLayerInputs[] = {
    {"when", kFlag, "true"},
    {"vocabulary", kNumber, "\"$vocab_size\""},
    {"width", kNumber, ""},
    {"table", kText, "\"embed_tokens_per_layer\""},
    {"projection", kText, "\"per_layer_model_projection\""},
    {"projection_norm", kText, "\"per_layer_projection_norm\""},
    {"gate", kText, "\"per_layer_input_gate\""},
    {"outward", kText, "\"per_layer_projection\""},
    {"norm", kText, "\"post_per_layer_input_norm\""},
};
constexpr SchemaOption kGrowth[] = {
    {"when", kFlag, "true"},
    {"beta", kNumber, ""},
    {"length", kNumber, ""},
};
constexpr SchemaOption kRotary[] = {
    {"when", kFlag, "true", true},  // of which layers
    {"theta", kNumber, "10000", true},
    {"part", kNumber, "null"},   // of each head; null: the family turns whole heads
    {"width", kNumber, "null"},  // numbers of each head, in place of a part
    {"interleaved", kFlag, "false"},
    {"configured", kFlag, "true"},        // whether rope_parameters and its like are read
    {"layer_kind", kText, "null", true},  // with a set of parameters for each kind
    {"fixed_alpha", kFlag, "false"},      // "dynamic" with an alpha is a larger base: Hunyuan
};
constexpr SchemaOption kAlibi[] = {
    {"when", kFlag, "true"}, {"largest", kNumber, "8"},   {"by_mask", kFlag, "true"},
    {"scale", kNumber, "1"}, {"rounded", kFlag, "false"},
};
constexpr SchemaOption kPositions[] = {
    {"when", kFlag, "true"},      {"kind", kText, "\"learned\"", false, "learned waves"},
    {"module", kText, "\"wpe\""}, {"rows", kNumber, "\"$max_position_embeddings\""},
    {"offset", kNumber, "0"},     {"zero_row", kNumber, "null"},
};
constexpr SchemaOption kFeedForward[] = {
    {"gated", kFlag, "true"},
    {"gate", kText, "\"mlp.gate_proj\""},
    {"up", kText, "\"mlp.up_proj\""},
    {"down", kText, "\"mlp.down_proj\""},
    {"fused", kText, "null"},
    {"width", kNumber, "\"$intermediate_size\"", true},
    {"activation", kText, "\"$hidden_act\"", true},
    {"bias", kFlag, "false", true},
    {"activation_dropout", kNumber, "0"},
    {"dropout", kNumber, "0"},
};
constexpr SchemaOption kExperts[] = {
    {"when", kFlag, "true", true},
    {"count", kNumber, "\"$num_experts\""},
    {"per_token", kNumber, "\"$num_experts_per_tok\""},
    {"width", kNumber, "\"$intermediate_size\""},
    {"feed_forward_too", kFlag, "false"},  // what it makes is added
    {"module", kText, "\"mlp\""},
    {"gate", kText, "\"gate_proj\""},  // null: experts have none
    {"up", kText, "\"up_proj\""},
    {"down", kText, "\"down_proj\""},
    {"shares_sum_to_one", kFlag, "true"},
    {"shared_width", kNumber, "0"},
    {"shared", kText, "\"shared_expert\""},
    {"shared_gate", kFlag, "true"},
    {"shared_bias", kFlag, "false"},
    {"latent_width", kNumber, "0"},  // of what experts read and make; 0: that of the model
    {"latent_bias", kFlag, "false"},
    {"biases", kFlag, "false"},
    {"limit", kNumber, "null"},  // gates and what they let by are clamped; null: they are not
    {"sharpness", kNumber, "1"},
    {"router", kText, "\"gate\""},
    {"router_bias", kFlag, "false"},
    {"wide_router", kFlag, "false"},
    {"scores", kText, "\"softmax\"", false, "softmax softmax_of_chosen sigmoid"},
    {"correction", kText, "null"},
    {"correction_beside", kFlag, "false"},  // not in the router's module
    {"groups", kNumber, "1"},
    {"seen_groups", kNumber, "1"},
    {"two_largest", kFlag, "false"},
    {"epsilon", kNumber, "0"},
    {"factor", kNumber, "1"},
    {"router_scale", kText, "null"},  // a parameter by which what the router reads is scaled, normed
    {"expert_scale", kText, "null"},  // one of shares
    {"balance", kNumber, "0"},
    {"jitter", kNumber, "0"},
};
constexpr SchemaOption kHead[] = {
    {"module", kText, "\"lm_head\""}, {"tied", kFlag, "\"$tie_word_embeddings\""},
    {"bias", kFlag, "false"},         {"multiplier", kNumber, "1"},
    {"soft_cap", kNumber, "0"},       {"token_head", kText, "\"score\""},
};

constexpr SchemaSection kSections[] = {
    {"decoder", kDecoder, true},
    {"decoder.embeddings", kEmbeddings, true},
    {"decoder.norm", kNorm, true},
    {"decoder.norms", kNorms, true},
    {"decoder.attention", kAttention, true},
    {"decoder.attention.fused", kFused, false},
    {"decoder.attention.head_norms", kHeadNorms, false},
    {"decoder.attention.latent", kLatent, false},
    {"decoder.attention.growth", kGrowth, false},
    {"decoder.attention.shared", kShared, false},
    {"decoder.layer_inputs", kLayerInputs, false},
    {"decoder.mixer", kMixer, false},
    {"decoder.rotary", kRotary, false},
    {"decoder.alibi", kAlibi, false},
    {"decoder.positions", kPositions, false},
    {"decoder.feed_forward", kFeedForward, true},
    {"decoder.experts", kExperts, false},
    {"decoder.head", kHead, true},
};

const SchemaOption* option_of(const SchemaSection& section, std::string_view name) {
  for (const SchemaOption& each : section.options)
    if (each.name == name) return &each;
  return nullptr;
}

// What stands for an option that the file does not have, read once.
const Json& otherwise_of(const SchemaSection& section, const SchemaOption& option) {
  static const std::map<std::string, Json> kAll = [] {
    std::map<std::string, Json> all;
    for (const SchemaSection& each : kSections)
      for (const SchemaOption& one : each.options)
        if (!one.otherwise.empty())
          all[fmt::format("{}.{}", each.path, one.name)] = parse_json(one.otherwise, "the schema of families");
    return all;
  }();
  return kAll.at(fmt::format("{}.{}", section.path, option.name));
}

bool fits(SchemaOption::Kind kind, const Json& constant) {
  if (constant.is_null()) return true;
  if (constant.is_string() && constant.get_ref<const std::string&>().starts_with("$")) return true;
  switch (kind) {
    case kNumber:
      return constant.is_number();
    case kFlag:
      return constant.is_boolean();
    case kText:
      return constant.is_string();
  }
  return false;
}

bool is_choice(const SchemaOption& option, std::string_view text) {
  if (option.choices.empty()) return true;
  return fmt::format(" {} ", option.choices).find(fmt::format(" {} ", text)) != std::string::npos;
}

void check_section(const Json& file, const SchemaSection& section, std::vector<std::string>& findings) {
  const Json* own = json_at(file, section.path);
  if (own && own->is_null()) return;
  if (own && !own->is_object()) {
    findings.push_back(fmt::format("{}: expected an object", section.path));
    return;
  }
  if (!own && !section.by_default) return;
  if (own)
    for (const auto& [name, value] : own->items()) {
      if (option_of(section, name)) continue;
      const std::string path = fmt::format("{}.{}", section.path, name);
      std::vector<std::string> known;
      bool is_section = false;
      for (const SchemaSection& each : kSections) {
        is_section = is_section || each.path == path;
        if (each.path.starts_with(section.path) && each.path != section.path)
          known.emplace_back(each.path.substr(section.path.size() + 1));
      }
      for (const SchemaOption& each : section.options) known.emplace_back(each.name);
      if (!is_section)
        findings.push_back(fmt::format("{}: unknown option{}", quoted(path, 100), did_you_mean(name, known)));
    }
  for (const SchemaOption& option : section.options) {
    const std::string path = fmt::format("{}.{}", section.path, option.name);
    const bool is_there = own && own->contains(std::string(option.name));
    if (!is_there && option.otherwise.empty()) {
      findings.push_back(path + " is missing");
      continue;
    }
    const Json& value = is_there ? (*own)[std::string(option.name)] : otherwise_of(section, option);
    check_option(file, value, path, option.by_layer, findings);
    if (value.is_object()) continue;
    if (!fits(option.kind, value))
      findings.push_back(fmt::format("{}: expected {}, found {}", path,
                                     option.kind == kNumber ? "a number"
                                     : option.kind == kFlag ? "true or false"
                                                            : "a text",
                                     quoted(dump_json(value), 100)));
    else if (value.is_string() && !value.get_ref<const std::string&>().starts_with("$") &&
             !is_choice(option, value.get<std::string>()))
      findings.push_back(
          fmt::format("{}: expected one of {}, found {}", path, option.choices, quoted(value.get<std::string>(), 100)));
  }
}

}  // namespace

std::span<const SchemaSection> family_schema() { return kSections; }

const SchemaSection& schema_section(std::string_view path) {
  for (const SchemaSection& each : kSections)
    if (each.path == path) return each;
  fail(ErrorKind::kInternal, "the schema of families has no section {}", path);
}

void check_sections(const Json& file, std::vector<std::string>& findings) {
  for (const SchemaSection& section : kSections) check_section(file, section, findings);
}

// ---- a section for one configuration

OptionSection::OptionSection(const Json& file, const OptionValues& values, std::string_view path,
                             std::optional<int64_t> layer)
    : schema_(schema_section(path)), values_(values), own_(json_at(file, path)), layer_(layer) {
  if (own_ && !own_->is_object()) own_ = nullptr;
}

bool OptionSection::holds() const {
  if (!own_) return schema_.by_default;
  return !option_of(schema_, "when") || flag("when");
}

const Json& OptionSection::option(std::string_view name) const {
  if (own_)
    if (const auto found = own_->find(std::string(name)); found != own_->end()) return *found;
  const SchemaOption* known = option_of(schema_, name);
  if (!known || known->otherwise.empty()) fail(ErrorKind::kInternal, "{}: there is no option {}", schema_.path, name);
  return otherwise_of(schema_, *known);
}

OptionPlace OptionSection::place(std::string_view name) const {
  return {fmt::format("{}.{}", schema_.path, name), layer_};
}

bool OptionSection::flag(std::string_view name) const { return values_.flag(option(name), place(name)); }
int64_t OptionSection::whole(std::string_view name) const { return values_.whole(option(name), place(name)); }
double OptionSection::real(std::string_view name) const { return values_.real(option(name), place(name)); }
bool OptionSection::is_null(std::string_view name) const { return values_.value(option(name), place(name)).is_null(); }

std::string OptionSection::text(std::string_view name) const {
  std::string found = values_.text(option(name), place(name));
  const SchemaOption& known = *option_of(schema_, name);
  if (!is_choice(known, found))
    fail("{}: expected one of {}, found {}", place(name).path, known.choices, quoted(found, 100));
  return found;
}

}  // namespace transom
