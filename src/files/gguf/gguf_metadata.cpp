// SPDX-License-Identifier: Apache-2.0
// The keys are those of src/llama-arch.cpp in https://github.com/ggml-org/llama.cpp
#include "files/gguf/gguf_metadata.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/gguf/gguf_family.h"

namespace transom {
namespace {

enum class Treatment {
  kRead,      // by gguf_config.cpp and its neighbours
  kNoEffect,  // says nothing that results depend on
  kNeutral,   // refused unless each number is one of `values`
  kEqual,     // refused unless equal to the key `other`, where both are there
  kReported,  // what is here is right, but there is more than is done
};

struct KeyRule {
  const char* key;            // without the architecture
  const char* architectures;  // "*": all that no rule before names; "rotary": those with rotary positions
  Treatment treatment;
  std::vector<double> values = {};
  const char* other = "";
};

// Of keys that the family's record does not read. Of several rules for one, the first that names the architecture
// counts.
const std::vector<KeyRule>& rules() {
  constexpr Treatment kRead = Treatment::kRead, kNoEffect = Treatment::kNoEffect, kNeutral = Treatment::kNeutral,
                      kEqual = Treatment::kEqual;
  constexpr const char* kTurning = "rotary";
  static const std::vector<KeyRule> kRules = {
      {"block_count", "*", kRead},
      {"context_length", "*", kRead},
      {"embedding_length", "*", kRead},
      {"feed_forward_length", "*", kRead},
      {"vocab_size", "*", kRead},
      {"attention.head_count", "*", kRead},
      {"attention.head_count_kv", "*", kEqual, {}, "attention.head_count"},
      {"attention.key_length", "gpt2 bloom gptneox bert", kNoEffect},
      {"attention.key_length", "*", kRead},
      {"attention.value_length", "*", kEqual, {}, "attention.key_length"},
      {"attention.layer_norm_epsilon", "*", kRead},
      {"attention.layer_norm_rms_epsilon", "*", kRead},
      {"attention.causal", "bert t5encoder", kNeutral, {0}},
      {"attention.causal", "t5", kNoEffect},
      {"attention.causal", "*", kNeutral, {1}},
      {"attention.relative_buckets_count", "t5 t5encoder", kRead},
      {"attention.sliding_window", "*", kNeutral, {0}},
      {"attention.sliding_window_pattern", "gemma2 gemma3", kRead},
      {"attention.max_alibi_bias", "bloom", kNeutral, {8}},
      {"attention.max_alibi_bias", "*", kNeutral, {0}},
      {"attention.clamp_kqv", "*", kNeutral, {0}},
      {"attention.value_scale", "*", kNeutral, {0, 1}},
      {"attention.output_scale", "*", kNeutral, {0, 1}},
      {"attention.temperature_scale", "*", kNeutral, {0}},
      {"attention.temperature_length", "*", kNeutral, {0}},
      {"attn_logit_softcapping", "*", kNeutral, {0}},
      {"final_logit_softcapping", "*", kNeutral, {0}},
      {"router_logit_softcapping", "*", kNeutral, {0}},
      {"logit_scale", "*", kNeutral, {0, 1}},
      {"residual_scale", "*", kNeutral, {0, 1}},
      {"embedding_scale", "*", kNeutral, {0, 1}},
      {"rope.freq_base", kTurning, kRead},
      {"rope.freq_base_swa", "gemma3", kRead},
      {"rope.freq_base_swa", kTurning, kEqual, {}, "rope.freq_base"},
      {"rope.dimension_count", kTurning, kRead},
      {"rope.dimension_count_swa", kTurning, kEqual, {}, "rope.dimension_count"},
      {"rope.scale_linear", kTurning, kRead},
      {"rope.scaling.type", kTurning, kRead},
      {"rope.scaling.factor", kTurning, kRead},
      {"rope.scaling.attn_factor", kTurning, kRead},
      {"rope.scaling.original_context_length", kTurning, kRead},
      {"rope.scaling.yarn_beta_fast", kTurning, kRead},
      {"rope.scaling.yarn_beta_slow", kTurning, kRead},
      {"rope.scaling.yarn_attn_factor", kTurning, kNeutral, {1}},
      {"rope.scaling.yarn_ext_factor", kTurning, kNeutral, {-1, 1}},
      {"rope.scaling.yarn_log_multiplier", kTurning, kNeutral, {0}},
      {"rope.scaling.finetuned", "*", kNoEffect},
      {"rope.freq_base", "*", kNoEffect},  // these have learnt positions, distances, or none
      {"rope.dimension_count", "*", kNoEffect},
      {"expert_count", "*", kNeutral, {0}},
      {"expert_used_count", "*", kNeutral, {0}},
      {"expert_feed_forward_length", "llama gpt-oss", kEqual, {}, "feed_forward_length"},
      {"expert_feed_forward_length", "*", kNeutral, {0}},
      {"expert_shared_count", "*", kNeutral, {0}},
      {"expert_shared_feed_forward_length", "*", kNeutral, {0}},
      {"expert_group_count", "*", kNeutral, {0, 1}},
      {"expert_group_used_count", "*", kNeutral, {0, 1}},
      {"expert_weights_scale", "*", kNeutral, {0, 1}},
      {"expert_weights_norm", "*", kNeutral, {1}},
      {"expert_gating_func", "*", kNeutral, {0, 1}},
      {"leading_dense_block_count", "*", kNeutral, {0}},
      {"interleave_moe_layer_step", "*", kNeutral, {0, 1}},
      {"moe_every_n_layers", "*", kNeutral, {0, 1}},
      {"nextn_predict_layers", "*", kNeutral, {0}},
      {"num_loops", "*", kNeutral, {0, 1}},
      {"use_parallel_residual", "*", kNeutral, {0}},
      {"decoder_block_count", "t5 t5encoder", kRead},
      {"decoder_start_token_id", "t5 t5encoder", kRead},
      {"pooling_type", "*", kRead},
      {"classifier.output_labels", "*", Treatment::kReported},
      {"tensor_data_layout", "*", kNoEffect}};
  return kRules;
}

bool names(const std::string& list, const std::string& architecture) {
  return list == "*" || (" " + list + " ").find(" " + architecture + " ") != std::string::npos;
}

const KeyRule* rule_for(const std::string& key, const std::string& architecture, const GgufFamily& family,
                        const Json* written) {
  static const KeyRule kOfRecord{"", "", Treatment::kRead};
  if (written && written->contains(key)) return &kOfRecord;
  for (const GgufKey& known : family.keys)
    if (known.key == key && known.read.is != GgufUsual::Is::kNotRead) return &kOfRecord;
  for (const KeyRule& rule : rules()) {
    if (key != rule.key) continue;
    const bool is_rotary = std::string_view(rule.architectures) == "rotary";
    if (is_rotary ? family.rotary.has_value() : names(rule.architectures, architecture)) return &rule;
  }
  return nullptr;
}

// What the name of a key that no rule knows gives away: one that changes attention, positions or scales is no remark.
bool looks_like_mathematics(std::string_view key) {
  for (const char* part :
       {"attention", "attn",      "rope",       "expert", "moe",        "softcap", "scale",    "scaling",
        "clamp",     "window",    "activation", "norm",   "multiplier", "epsilon", "theta",    "ssm.",
        "wkv.",      "shortconv", "nextn",      "layer",  "block",      "head",    "residual", "embedding"})
    if (key.find(part) != key.npos) return true;
  return false;
}

// Empty for texts.
std::vector<double> numbers_at(const GgufFile& file, const std::string& key) {
  const GgufValue& value = *file.find_value(key);
  if (const auto* truth = std::get_if<bool>(&value)) return {*truth ? 1.0 : 0.0};
  if (const auto* number = std::get_if<int64_t>(&value)) return {static_cast<double>(*number)};
  if (const auto* number = std::get_if<double>(&value)) return {*number};
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) return {list->begin(), list->end()};
  if (const auto* list = std::get_if<std::vector<double>>(&value)) return *list;
  return {};
}

std::string printed(const GgufFile& file, const std::string& key) {
  if (const auto* text = std::get_if<std::string>(file.find_value(key))) return quoted(*text);
  const std::vector<double> numbers = numbers_at(file, key);
  constexpr size_t kShown = 8;
  const std::vector<double> shown(numbers.begin(), numbers.begin() + std::min(numbers.size(), kShown));
  return fmt::format("{}{}", fmt::join(shown, ", "), numbers.size() > kShown ? " ..." : "");
}

// Lists of one number for each layer may be written as that number.
bool are_equal(std::vector<double> a, std::vector<double> b) {
  const auto shorten = [](std::vector<double>& list) {
    if (!list.empty() && std::all_of(list.begin(), list.end(), [&](double one) { return one == list[0]; }))
      list.resize(1);
  };
  shorten(a), shorten(b);
  return a == b;
}

[[noreturn]] void refuse(const GgufFile& file, const std::string& key, const std::string& more) {
  fail(ErrorKind::kUnsupported, "{}: {} = {} changes results and is not carried out{}", file.where(), key,
       printed(file, key), more);
}

// What would be written, as the file holds it: floats of 32 bits.
std::vector<double> written_numbers(const Json& value) {
  std::vector<double> numbers;
  for (const Json& one : value.is_array() ? value : Json::array({value})) {
    if (one.is_boolean()) numbers.push_back(one.get<bool>() ? 1 : 0);
    else if (one.is_number_float()) numbers.push_back(static_cast<double>(one.get<float>()));
    else if (one.is_number()) numbers.push_back(one.get<double>());
  }
  return numbers;
}

void check_written(const GgufFile& file, const std::string& key, const Json& expected) {
  const auto* text = std::get_if<std::string>(file.find_value(key));
  const bool same = expected.is_string() || text ? text && expected == *text
                                                 : are_equal(numbers_at(file, key), written_numbers(expected));
  if (!same) refuse(file, key, fmt::format("; expected {}", dump_json(expected)));
}

}  // namespace

void check_gguf_metadata(const GgufFile& file, const Json& written) {
  const std::string architecture = file.get_string("general.architecture"), prefix = architecture + ".";
  const GgufFamily& family = *gguf_class(file).gguf;
  for (const std::string& key : file.keys()) {
    if (!key.starts_with(prefix)) continue;
    const std::string rest = key.substr(prefix.size());
    if (written.contains(rest)) {
      check_written(file, key, written[rest]);
      continue;
    }
    const KeyRule* rule = rule_for(rest, architecture, family, &written);
    if (!rule) {
      if (looks_like_mathematics(rest)) refuse(file, key, "");
      continue;
    }
    if (rule->treatment == Treatment::kNeutral) {
      const std::vector<double> found = numbers_at(file, key);
      const bool neutral = !found.empty() && std::all_of(found.begin(), found.end(), [&](double value) {
        return std::find(rule->values.begin(), rule->values.end(), value) != rule->values.end();
      });
      if (!neutral) refuse(file, key, fmt::format("; expected {}", fmt::join(rule->values, " or ")));
    }
    if (rule->treatment == Treatment::kEqual && file.has(prefix + rule->other) &&
        !are_equal(numbers_at(file, key), numbers_at(file, prefix + rule->other)))
      refuse(file, key, fmt::format("; expected {}, as {} is", printed(file, prefix + rule->other), rule->other));
  }
}

void report_gguf_metadata(const GgufFile& file, const Json* written) {
  const std::string architecture = file.get_string("general.architecture", ""), prefix = architecture + ".";
  const GgufFamily& family = *gguf_class(file).gguf;
  std::vector<std::string> unknown;
  for (const std::string& key : file.keys()) {
    const auto begins = [&](const char* with) { return key.starts_with(with); };
    if (key.starts_with(prefix)) {
      const KeyRule* rule = rule_for(key.substr(prefix.size()), architecture, family, written);
      if (!rule || rule->treatment == Treatment::kReported) unknown.push_back(key);
      continue;
    }
    // Who made the file and how; and other forms of the vocabulary that is read.
    const bool remark = begins("general.") || begins("split.") || begins("quantize.") ||
                        begins("tokenizer.chat_template") || key == "tokenizer.huggingface.json" ||
                        key == "tokenizer.rwkv.world" || begins("imatrix.");
    static constexpr std::string_view kVocabulary[] = {"model",
                                                       "pre",
                                                       "tokens",
                                                       "token_type",
                                                       "token_type_count",
                                                       "scores",
                                                       "merges",
                                                       "add_bos_token",
                                                       "add_eos_token",
                                                       "add_sep_token",
                                                       "bos_token_id",
                                                       "eos_token_id",
                                                       "eot_token_id",
                                                       "eom_token_id",
                                                       "unknown_token_id",
                                                       "cls_token_id",
                                                       "mask_token_id",
                                                       "fim_pre_token_id",
                                                       "fim_suf_token_id",
                                                       "fim_mid_token_id",
                                                       "fim_pad_token_id",
                                                       "fim_rep_token_id",
                                                       "fim_sep_token_id",
                                                       "prefix_token_id",
                                                       "suffix_token_id",
                                                       "middle_token_id",
                                                       "seperator_token_id",
                                                       "padding_token_id",
                                                       "add_space_prefix",
                                                       "remove_extra_whitespaces",
                                                       "precompiled_charsmap",
                                                       "normalizer.lowercase",
                                                       "normalizer.strip_accents",
                                                       "suppress_tokens",
                                                       "added_tokens"};
    constexpr std::string_view kBegin = "tokenizer.ggml.";
    const bool vocabulary =
        begins("tokenizer.ggml.") && std::find(std::begin(kVocabulary), std::end(kVocabulary),
                                               std::string_view(key).substr(kBegin.size())) != std::end(kVocabulary);
    if (!remark && !vocabulary) unknown.push_back(key);
  }
  if (!unknown.empty())
    log(LogLevel::kWarning, fmt::format("{}: not known and left out: {}", file.where(), fmt::join(unknown, ", ")));
}

}  // namespace transom
