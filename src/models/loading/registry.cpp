// SPDX-License-Identifier: Apache-2.0
// The list of all architecture families.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "models/family.h"

namespace transom {

Family albert_family();
Family bart_family();
Family bert_family();
Family bloom_family();
Family camembert_family();
Family clip_family();
Family clip_text_family();
Family clip_vision_family();
Family convnext_family();
Family deberta_v2_family();
Family dinov2_family();
Family distilbert_family();
Family dlrm_family();
Family efficientnet_family();
Family electra_family();
Family gemma_family();
Family gemma2_family();
Family gemma3_text_family();
Family gpt2_family();
Family gpt_bigcode_family();
Family gpt_neox_family();
Family hubert_family();
Family llama_family();
Family marian_family();
Family mistral_family();
Family mixtral_family();
Family modernbert_family();
Family mpnet_family();
Family opt_family();
Family phi3_family();
Family qwen2_family();
Family qwen3_family();
Family resnet_family();
Family roberta_family();
Family starcoder2_family();
Family swin_family();
Family t5_family();
Family timm_wrapper_family();
Family vit_family();
Family wav2vec2_family();
Family whisper_family();
Family xlm_roberta_family();

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      albert_family(),   bart_family(),       bert_family(),         bloom_family(),        camembert_family(),
      clip_family(),     clip_text_family(),  clip_vision_family(),  convnext_family(),     deberta_v2_family(),
      dinov2_family(),   distilbert_family(), dlrm_family(),         efficientnet_family(), electra_family(),
      gemma_family(),    gemma2_family(),     gemma3_text_family(),  gpt2_family(),         gpt_bigcode_family(),
      gpt_neox_family(), hubert_family(),     llama_family(),        marian_family(),       mistral_family(),
      mixtral_family(),  modernbert_family(), mpnet_family(),        opt_family(),          phi3_family(),
      qwen2_family(),    qwen3_family(),      resnet_family(),       roberta_family(),      starcoder2_family(),
      swin_family(),     t5_family(),         timm_wrapper_family(), vit_family(),          wav2vec2_family(),
      whisper_family(),  xlm_roberta_family()};
  return all;
}

const Family* find_family(std::string_view model_type) {
  for (const Family& family : families())
    if (family.model_type == model_type) return &family;
  return nullptr;
}

const Architecture* find_architecture(std::string_view name) {
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures)
      if (architecture.name == name) return &architecture;
  return nullptr;
}

const Architecture* find_architecture(const Family& family, HeadTask task) {
  for (const Architecture& architecture : family.architectures)
    if (*architecture.head.task == task) return &architecture;
  return nullptr;
}

const Architecture* find_architecture(const Family& family, std::string_view pipeline) {
  for (const Architecture& architecture : family.architectures)
    if (const auto& all = *architecture.head.pipelines; std::find(all.begin(), all.end(), pipeline) != all.end())
      return &architecture;
  return nullptr;
}

int64_t number_of_labels(const Config& config) {
  const auto labels = config.get_map("id2label");
  if (!labels.empty()) return static_cast<int64_t>(labels.size());
  return config.get_int("num_labels", 2);
}

std::optional<int64_t> padding_id(const Config& config, int64_t otherwise) {
  if (config.has("pad_token_id")) return config.get_int("pad_token_id");
  return json_of(config).contains("pad_token_id") ? std::nullopt : std::optional(otherwise);
}

Config with_defaults(Config config, std::string_view defaults) {
  const Json fields = parse_json(defaults, "the family's defaults");
  const bool no_padding = json_of(config).contains("pad_token_id");  // null: there is none
  for (const auto& [key, value] : fields.items())
    if (!config.has(key) && !(key == "pad_token_id" && no_padding)) set_field(config, key, value);
  return config;
}

void refuse_unless(const Config& config, const std::string& field, const std::string& expected) {
  if (!config.has(field)) return;
  const bool flag = expected == "true" || expected == "false";
  const std::string found = flag ? (config.get_bool(field) ? "true" : "false") : config.get_string(field);
  if (found != expected)
    fail(ErrorKind::kUnsupported, "config.json: {} = {} is not carried out; only {} is", field, quoted(found),
         expected);
}

}  // namespace transom
