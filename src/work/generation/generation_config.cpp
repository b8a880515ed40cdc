// SPDX-License-Identifier: Apache-2.0
// Fields of GenerationConfig by their names.
#include <algorithm>
#include <set>
#include <type_traits>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "files/config/known_keys.h"
#include "files/hub/resolve.h"
#include "work/generation/generation_fields.h"

namespace transom {
namespace {

struct Value {
  const std::string& name;
  const Json& json;
  [[noreturn]] void refuse(std::string_view expected) const {
    fail("{}: expected {}, found {}", name, expected, quoted(dump_json(json)));
  }
};

void read(const Value& v, bool& field) {
  if (!v.json.is_boolean()) v.refuse("true or false");
  field = v.json.get<bool>();
}
void read(const Value& v, int64_t& field) {
  if (!v.json.is_number_integer()) v.refuse("a whole number");
  field = v.json.get<int64_t>();
}
void read(const Value& v, uint64_t& field) {
  if (!v.json.is_number_integer() || (!v.json.is_number_unsigned() && v.json.get<int64_t>() < 0))
    v.refuse("a whole number that is not negative");
  field = v.json.get<uint64_t>();
}
void read(const Value& v, double& field) {
  if (!v.json.is_number()) v.refuse("a number");
  field = v.json.get<double>();
}
// One id or a list of them.
void read(const Value& v, TokenIds& field) {
  field.clear();
  for (const Json& item : v.json.is_array() ? v.json : Json::array({v.json}))
    read(Value{v.name, item}, field.emplace_back());
}
void read(const Value& v, std::vector<TokenIds>& field) {
  if (!v.json.is_array()) v.refuse("a list of lists of token ids");
  field.clear();
  for (const Json& item : v.json) {
    if (!item.is_array() || item.empty()) v.refuse("a list of lists of token ids");
    read(Value{v.name, item}, field.emplace_back());
  }
}
void read(const Value& v, std::vector<std::string>& field) {
  field.clear();
  for (const Json& item : v.json.is_array() ? v.json : Json::array({v.json})) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) v.refuse("a text or a list of texts");
    field.push_back(item.get<std::string>());
  }
}
void read(const Value& v, std::vector<std::pair<TokenIds, double>>& field) {
  if (!v.json.is_array()) v.refuse("a list of [token ids, bias]");
  field.clear();
  for (const Json& item : v.json) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_array() || item[0].empty())
      v.refuse("a list of [token ids, bias]");
    auto& [ids, bias] = field.emplace_back();
    read(Value{v.name, item[0]}, ids);
    read(Value{v.name, item[1]}, bias);
  }
}
void read(const Value& v, std::vector<std::pair<int64_t, int64_t>>& field) {
  if (!v.json.is_array()) v.refuse("a list of [place, token id]");
  field.clear();
  for (const Json& item : v.json) {
    if (!item.is_array() || item.size() != 2) v.refuse("a list of [place, token id]");
    if (item[1].is_null()) continue;  // Whisper finds the language by itself
    auto& [place, id] = field.emplace_back();
    read(Value{v.name, item[0]}, place);
    read(Value{v.name, item[1]}, id);
  }
}
void read(const Value& v, std::pair<int64_t, double>& field) {
  if (!v.json.is_array() || v.json.size() != 2) v.refuse("[a number of tokens, a factor]");
  read(Value{v.name, v.json[0]}, field.first);
  read(Value{v.name, v.json[1]}, field.second);
}
void read(const Value& v, GenerationConfig::EarlyStopping& field) {
  using enum GenerationConfig::EarlyStopping;
  if (v.json == "never") field = kNever;
  else if (v.json.is_boolean()) field = v.json.get<bool>() ? kTrue : kFalse;
  else v.refuse("true, false or \"never\"");
}
template <typename T>
void read(const Value& v, std::optional<T>& field) {
  read(v, field.emplace());
}

struct Field {
  std::string_view name, help;
  bool is_flag, is_text;
  void (*set)(const Value& value, GenerationConfig& config);
  void (*reset)(GenerationConfig& config);  // null: the default
};

template <auto member>
constexpr Field field(std::string_view name, std::string_view help) {
  using T = std::remove_reference_t<decltype(std::declval<GenerationConfig&>().*member)>;
  return {name,
          help,
          std::is_same_v<T, bool>,
          std::is_same_v<T, std::vector<std::string>>,
          [](const Value& v, GenerationConfig& c) { read(v, c.*member); },
          [](GenerationConfig& c) { c.*member = GenerationConfig().*member; }};
}

using C = GenerationConfig;
constexpr Field kFields[] = {
    field<&C::max_length>("max_length", "maximum number of tokens; of a decoder-only model the prompt counts"),
    field<&C::max_new_tokens>("max_new_tokens", "maximum number of new tokens"),
    field<&C::min_length>("min_length", "minimum number of tokens; of a decoder-only model the prompt counts"),
    field<&C::min_new_tokens>("min_new_tokens", "minimum number of new tokens"),
    field<&C::stop_strings>("stop_strings", "a text that ends generation, or a JSON list of them"),
    field<&C::max_time>("max_time", "seconds after which generation ends"),
    field<&C::do_sample>("do_sample", "sample tokens by their probabilities"),
    field<&C::num_beams>("num_beams", "number of beams"),
    field<&C::num_return_sequences>("num_return_sequences", "number of texts for each prompt"),
    field<&C::length_penalty>("length_penalty",
                              "beam search: exponential length penalty; > 0 favours longer sequences"),
    field<&C::early_stopping>("early_stopping", "beam search: when it stops; true, false or never"),
    field<&C::use_cache>("use_cache", "cache the keys and values of earlier tokens"),
    field<&C::seed>("seed", "seed of sampling"),
    field<&C::repetition_penalty>("repetition_penalty", "scores of earlier tokens are divided by it"),
    field<&C::encoder_repetition_penalty>("encoder_repetition_penalty",
                                          "scores of tokens of the encoder's input are multiplied by it"),
    field<&C::no_repeat_ngram_size>("no_repeat_ngram_size", "n-grams of this size are not repeated"),
    field<&C::encoder_no_repeat_ngram_size>("encoder_no_repeat_ngram_size",
                                            "n-grams of this size in the encoder's input are not generated"),
    field<&C::bad_words_ids>("bad_words_ids", "JSON list of lists of token ids that are never generated"),
    field<&C::sequence_bias>("sequence_bias", "JSON list of [token ids, bias]"),
    field<&C::forced_bos_token_id>("forced_bos_token_id", "the first token after the decoder's start token"),
    field<&C::forced_eos_token_id>("forced_eos_token_id", "the last token, at max_length"),
    field<&C::forced_decoder_ids>("forced_decoder_ids", "JSON list of [place, token id], of Whisper"),
    field<&C::suppress_tokens>("suppress_tokens", "token ids that are never generated"),
    field<&C::begin_suppress_tokens>("begin_suppress_tokens", "token ids that are never generated first"),
    field<&C::exponential_decay_length_penalty>(
        "exponential_decay_length_penalty",
        "JSON list [start, factor]: the end of the text becomes likelier from `start` new tokens on"),
    field<&C::remove_invalid_values>("remove_invalid_values", "replace NaN and infinite scores"),
    field<&C::renormalize_logits>("renormalize_logits", "normalize the scores to log-probabilities"),
    field<&C::temperature>("temperature", "sampling: logits are divided by it"),
    field<&C::top_k>("top_k", "sampling: only the k most probable tokens; 0: all"),
    field<&C::top_p>("top_p", "nucleus sampling: smallest set of tokens whose cumulative probability reaches top_p"),
    field<&C::typical_p>("typical_p",
                         "typical sampling: most typical tokens whose cumulative probability reaches typical_p"),
    field<&C::epsilon_cutoff>("epsilon_cutoff", "sampling: minimum probability of a token"),
    field<&C::eta_cutoff>("eta_cutoff", "sampling: minimum probability of a token, adapted to the entropy"),
    field<&C::min_p>("min_p", "sampling: minimum probability of a token, as a fraction of the highest"),
    field<&C::pad_token_id>("pad_token_id", "padding of sequences that have ended"),
    field<&C::bos_token_id>("bos_token_id", "first token of an empty prompt"),
    field<&C::decoder_start_token_id>("decoder_start_token_id", "first token of the decoder of an encoder-decoder"),
    field<&C::eos_token_id>("eos_token_id", "token id, or several, that end a text"),
};

// Fields that change which tokens come out and are not carried out, with the values at which they do nothing.
bool does_nothing(std::string_view name, const Json& value) {
  if (name == "num_beam_groups") return value == 1;
  if (name == "diversity_penalty") return value == 0.0;
  if (name == "guidance_scale") return value == 1.0;
  return value == false;
}
constexpr std::string_view kRefused[] = {"num_beam_groups",
                                         "diversity_penalty",
                                         "guidance_scale",
                                         "penalty_alpha",
                                         "constraints",
                                         "force_words_ids",
                                         "top_h",
                                         "token_healing",
                                         "dola_layers",
                                         "watermarking_config",
                                         "low_memory",
                                         "use_mtp",
                                         "prompt_lookup_num_tokens",
                                         "custom_generate"};
// Those that say how, not what.
constexpr std::string_view kIgnored[] = {"cache_implementation",
                                         "cache_config",
                                         "max_cache_len",
                                         "output_attentions",
                                         "output_hidden_states",
                                         "output_scores",
                                         "output_logits",
                                         "return_dict_in_generate",
                                         "transformers_version",
                                         "_from_model_config",
                                         "compile_config",
                                         "disable_compile",
                                         "prefill_chunk_size",
                                         "is_assistant",
                                         "num_assistant_tokens",
                                         "num_assistant_tokens_schedule",
                                         "assistant_confidence_threshold",
                                         "assistant_lookbehind",
                                         "target_lookbehind",
                                         "assistant_early_exit",
                                         "max_matching_ngram_size"};

// Of a model's own ways of generating, which its pipeline reads; and remarks.
constexpr KnownKey kOfModels[] = {{"alignment_heads"},
                                  {"lang_to_id"},
                                  {"task_to_id"},
                                  {"no_timestamps_token_id"},
                                  {"is_multilingual"},
                                  {"language"},
                                  {"task"},
                                  {"return_timestamps"},
                                  {"max_initial_timestamp_index"},
                                  {"prev_sot_token_id"},
                                  {"forced_decoder_ids"},
                                  {"median_filter_width"},
                                  {"condition_on_prev_tokens"},
                                  {"compression_ratio_threshold"},
                                  {"logprob_threshold"},
                                  {"no_speech_threshold"},
                                  {"max_target_positions"},
                                  {"sep_token_id"},
                                  {"cls_token_id"},
                                  {"unk_token_id"},
                                  {"mask_token_id"},
                                  {"chat_format"},
                                  {"max_window_size"},
                                  {"assistant_token_id"},
                                  {"user_token_id"},
                                  {"trust_remote_code"},
                                  {"model_type"},
                                  {"architectures"},
                                  {"dtype"},
                                  {"torch_dtype"},
                                  {"temperature_last_layer"}};

// What a field is set to; whether it is known.
bool set_field(GenerationConfig& config, const std::string& name, const Json& value) {
  if (std::find(std::begin(kIgnored), std::end(kIgnored), name) != std::end(kIgnored)) return true;
  if (std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused)) {
    if (!value.is_null() && !does_nothing(name, value))
      fail("{} = {}: this way of generating is not offered; leave the field out", name, dump_json(value));
    return true;
  }
  for (const Field& field : kFields)
    if (field.name == name) {
      if (value.is_null() && name == "top_k") config.top_k = 0;  // its default is not "none"
      else if (value.is_null()) field.reset(config);
      else field.set({name, value}, config);
      return true;
    }
  return false;
}

}  // namespace

void GenerationConfig::update(std::string_view text) {
  const Json json = parse_json(text, "the generation's options");
  if (!json.is_object()) fail("the generation's options: expected a JSON object");
  for (const auto& [name, value] : json.items()) {
    if (set_field(*this, name, value)) continue;
    std::vector<std::string> names;
    for (const Field& field : kFields) names.emplace_back(field.name);
    fail("unknown generation option {}{} Known are: {}", quoted(name), did_you_mean(name, names),
         fmt::join(names, ", "));
  }
}

std::vector<GenerationField> generation_fields() {
  std::vector<GenerationField> fields;
  for (const Field& field : kFields) fields.push_back({field.name, field.help, field.is_flag});
  for (const std::string_view name : kRefused) fields.push_back({name, ""});
  for (const std::string_view name : kIgnored) fields.push_back({name, ""});
  return fields;
}

Json generation_value(const std::string& name, const std::string& word) {
  const auto found =
      std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& f) { return f.name == name; });
  const bool is_text = found != std::end(kFields) && found->is_text;
  if (word == "None" || word == "none" || word == "null") return nullptr;
  if (word == "True" || word == "False") return word == "True";
  if (is_text && !word.starts_with('[')) return word;
  for (const std::string& text : {word, "[" + word + "]"})
    if (Json value = Json::parse(text, nullptr, false); !value.is_discarded()) return value;
  return word;
}

void set_generation_field(GenerationConfig& config, const std::string& name, const std::string& word) {
  if (!set_field(config, name, generation_value(name, word)))
    fail(ErrorKind::kUsage, "unknown generation option {}", quoted(name));
}

std::string_view why_without_effect(const GenerationConfig& config, std::string_view name) {
  const bool of_sampling =
      (name == "temperature" && config.temperature != 0 && config.temperature != 1) ||
      (name == "top_k" && config.top_k > 1) || (name == "top_p" && config.top_p != 1) ||
      (name == "min_p" && config.min_p.value_or(0) != 0) || (name == "typical_p" && config.typical_p != 1) ||
      (name == "epsilon_cutoff" && config.epsilon_cutoff != 0) || (name == "eta_cutoff" && config.eta_cutoff != 0);
  if (of_sampling && !config.do_sample) return "has no effect without do_sample";
  const bool of_beams = (name == "length_penalty" && config.length_penalty != 1) ||
                        (name == "early_stopping" && config.early_stopping != C::EarlyStopping::kFalse);
  return of_beams && config.num_beams == 1 ? "has no effect without num_beams above 1" : "";
}

fs::path generation_file(const fs::path& directory) {
  const fs::path folder = directory_of_model(directory);
  for (const fs::path& each : {directory, folder})
    if (path_exists(each / "generation_config.json")) return each / "generation_config.json";
  return folder / "config.json";
}

GenerationConfig GenerationConfig::from_pretrained(const std::string& directory) {
  GenerationConfig config;
  // What is there besides these fields belongs to the model's own ways of generating (Whisper's timestamps), or, in
  // config.json, to the model.
  const fs::path path = generation_file(directory);
  const Config file = Config::read(path);
  std::set<std::string> read;
  for (const auto& [name, value] : json_of(file).items()) {
    if (value.is_null()) continue;
    try {
      if (set_field(config, name, value)) read.insert(name);
    } catch (const Error& error) {
      fail("{}: {}", file.where(), error.what());
    }
  }
  if (path.filename() == "generation_config.json")
    check_known_keys(json_of(file), file.where(), kOfModels,
                     [&](const std::string& key) { return read.contains(key); });
  return config;
}

}  // namespace transom
