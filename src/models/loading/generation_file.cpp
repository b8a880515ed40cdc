// SPDX-License-Identifier: Apache-2.0
#include "models/loading/generation_file.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/config/model_config.h"

namespace transom {
namespace {

// The fields of Transformers' GenerationConfig, which it takes over from config.json.
constexpr std::string_view kFields[] = {"max_length",
                                        "max_new_tokens",
                                        "min_length",
                                        "min_new_tokens",
                                        "early_stopping",
                                        "max_time",
                                        "stop_strings",
                                        "do_sample",
                                        "num_beams",
                                        "use_cache",
                                        "cache_implementation",
                                        "cache_config",
                                        "temperature",
                                        "top_k",
                                        "top_p",
                                        "min_p",
                                        "typical_p",
                                        "epsilon_cutoff",
                                        "eta_cutoff",
                                        "repetition_penalty",
                                        "encoder_repetition_penalty",
                                        "length_penalty",
                                        "no_repeat_ngram_size",
                                        "bad_words_ids",
                                        "renormalize_logits",
                                        "forced_bos_token_id",
                                        "forced_eos_token_id",
                                        "remove_invalid_values",
                                        "exponential_decay_length_penalty",
                                        "suppress_tokens",
                                        "begin_suppress_tokens",
                                        "sequence_bias",
                                        "token_healing",
                                        "guidance_scale",
                                        "num_return_sequences",
                                        "output_attentions",
                                        "output_hidden_states",
                                        "output_scores",
                                        "output_logits",
                                        "return_dict_in_generate",
                                        "pad_token_id",
                                        "bos_token_id",
                                        "eos_token_id",
                                        "encoder_no_repeat_ngram_size",
                                        "decoder_start_token_id",
                                        "penalty_alpha",
                                        "diversity_penalty",
                                        "num_beam_groups",
                                        "constraints",
                                        "force_words_ids",
                                        "transformers_version"};

Config fields_of_model(const Config& config) {
  Json fields{{"_from_model_config", true}};
  const Config text = text_config_of(config);
  for (const std::string_view name : kFields)
    for (const Config* part : {&config, &text})
      if (part->has(name) && !fields.contains(name)) fields[std::string(name)] = json_of(*part)[std::string(name)];
  return make_config(std::move(fields), config.where());
}

}  // namespace

Config read_generation_config(const std::filesystem::path& directory, const Config& config) {
  const std::filesystem::path file = directory / "generation_config.json";
  if (directory.empty() || !path_exists(file)) return fields_of_model(config);
  try {
    const Config read = Config::read(file);
    Json fields = Json::object();
    for (const auto& [name, value] : json_of(read).items())
      if (!value.is_null()) fields[name] = value;
    return make_config(std::move(fields), file.string());
  } catch (const Error&) {
    return fields_of_model(config);
  }
}

}  // namespace transom
