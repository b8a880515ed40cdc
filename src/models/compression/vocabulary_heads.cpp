// SPDX-License-Identifier: Apache-2.0
#include "models/compression/vocabulary_heads.h"

#include <algorithm>

#include "transom/config.h"

namespace transom {
namespace {

std::vector<std::string> vocabulary_heads(const Model& model) {
  const std::string& architecture = model.architecture();
  const std::string type = model.config().get_string("model_type", "");
  for (const char* end : {"ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "MTModel"}) {
    if (!architecture.ends_with(end)) continue;
    // Transformers 5 renamed it; files keep the old name.
    if (type == "gpt_neox") return {"lm_head", "embed_out"};
    return {"lm_head"};
  }
  if (!architecture.ends_with("ForMaskedLM") && !architecture.ends_with("ForPreTraining")) return {};
  if (type == "distilbert") return {"vocab_projector"};
  if (type == "electra") return {"generator_lm_head"};
  if (type == "modernbert") return {"decoder"};
  if (type == "albert") return {"predictions.decoder"};
  if (type == "bert") return {"cls.predictions.decoder"};
  return {"lm_head.decoder"};  // RoBERTa and its like
}

}  // namespace

void ignore_vocabulary_heads(const Model& model, std::vector<std::string>& ignored) {
  for (const std::string& head : vocabulary_heads(model))
    if (std::find(ignored.begin(), ignored.end(), head) == ignored.end()) ignored.push_back(head);
}

}  // namespace transom
