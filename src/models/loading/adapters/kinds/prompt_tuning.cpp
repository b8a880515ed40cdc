// SPDX-License-Identifier: Apache-2.0
// Prompt tuning (Lester et al., 2021): trained vectors stand before the tokens of each row.
#include <algorithm>

#include "base/error.h"
#include "models/loading/adapters/kinds/prompt_learning.h"
#include "transom/hub.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

class TrainedVectors : public VirtualTokens {
 public:
  explicit TrainedVectors(std::shared_ptr<Parameter> vectors) : vectors_(std::move(vectors)) {}
  int64_t count() const override { return vectors_->value.dim(0); }
  Tensor embeddings(ForwardContext&) const override { return vectors_->value; }
  std::vector<KeysAndValues> keys_and_values(ForwardContext&) const override { return {}; }
  Tensor saved() const override { return vectors_->value; }

 private:
  std::shared_ptr<Parameter> vectors_;  // [n, D]
};

// The vectors of tokens of the model, as plain numbers.
std::vector<float> vectors_of(const Model& model, const std::vector<int64_t>& ids) {
  const NoGradient values_alone;
  ForwardContext context;
  return token_vectors(model, Tensor::from(ids, {1, static_cast<int64_t>(ids.size())}), context).to_vector<float>();
}

// So many tokens of the text, from its beginning again and again.
std::vector<int64_t> tokens_of_text(const AdapterConfig& config, int64_t count) {
  const Config& fields = config.fields();
  const std::string text = fields.get_string("prompt_tuning_init_text", ""),
                    name = fields.get_string("tokenizer_name_or_path", config.base_model());
  if (text.empty())
    fail("{}: prompt_tuning_init_text: expected a text for prompt_tuning_init TEXT, found none", config.where());
  const TokenIds ids = Tokenizer::from_pretrained(resolve_model(name).string()).encode(text).ids;
  if (ids.empty()) fail("{}: prompt_tuning_init_text: the tokenizer makes no tokens of it", config.where());
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i) chosen.push_back(ids[static_cast<size_t>(i) % ids.size()]);
  return chosen;
}

std::vector<float> first_vectors(AdapterMaking& making, int64_t count, int64_t width) {
  const std::string initial = making.config.fields().get_string("prompt_tuning_init", "RANDOM");
  if (initial == "RANDOM" || making.reads_file()) return draw_normal(making.generator, count * width);
  if (initial == "TEXT") return vectors_of(making.model, tokens_of_text(making.config, count));
  const int64_t vocabulary = token_table(making.model)->value.dim(0);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(making.generator.randint(vocabulary));
  return vectors_of(making.model, ids);
}

std::unique_ptr<VirtualTokens> make_prompt(AdapterMaking& making) {
  const Config& fields = making.config.fields();
  expect_vectors_taken(making.config, making.model);
  const int64_t count = count_of_virtual_tokens(making.config), width = fields.get_int("token_dim");
  const auto vectors =
      making.tensor("prompt_embeddings", {count, width}, [&] { return first_vectors(making, count, width); });
  return std::make_unique<TrainedVectors>(vectors);
}

void check_prompt(const AdapterConfig& config) {
  check_prompt_fields(config);
  const std::string initial = config.fields().get_string("prompt_tuning_init", "RANDOM");
  if (initial != "RANDOM" && initial != "TEXT" && initial != "SAMPLE_VOCAB")
    fail("{}: prompt_tuning_init: expected RANDOM, TEXT or SAMPLE_VOCAB, found {}", config.where(),
         transom::quoted(initial));
}

AdapterKind prompt_tuning_kind() {
  return {.type = "PROMPT_TUNING",
          .what = "vectors before the tokens of each row",
          .defaults = "{" TRANSOM_PROMPT_FIELDS
                      R"(, "prompt_tuning_init": "RANDOM", "prompt_tuning_init_text": null,
            "tokenizer_kwargs": null, "tokenizer_name_or_path": null})",
          .carried_out = {"num_transformer_submodules", "num_virtual_tokens", "prompt_tuning_init",
                          "prompt_tuning_init_text", "token_dim", "tokenizer_name_or_path"},
          .without_effect = {"num_attention_heads", "num_layers"},
          .virtual_tokens = make_prompt,
          .check = check_prompt,
          .complete = complete_vectors,
          .prefix = "base_model.",
          .unmerged = kVirtualTokensStay};
}

const RegisterAdapterKind kPromptTuning{prompt_tuning_kind};

}  // namespace
}  // namespace transom
