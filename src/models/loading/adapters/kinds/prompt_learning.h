// SPDX-License-Identifier: Apache-2.0
// What the kinds that put virtual tokens before each row have in common.
#pragma once

#include "models/loading/adapters/adapter_making.h"
#include "models/loading/adapters/virtual_tokens.h"

namespace transom {

// Why none of them can be merged.
inline constexpr std::string_view kVirtualTokensStay = "virtual tokens stand before each row, and belong to no weight";

// The fields of PEFT's PromptLearningConfig as JSON, without its braces.
#define TRANSOM_PROMPT_FIELDS                                                             \
  "\"num_attention_heads\": null, \"num_layers\": null, \"num_transformer_submodules\": " \
  "null, \"num_virtual_tokens\": null, \"token_dim\": null"

// n. Refuses a number that no text has.
int64_t count_of_virtual_tokens(const AdapterConfig& config);
// Refuses models before whose tokens no vectors can stand.
void expect_vectors_taken(const AdapterConfig& config, const Model& model);
// token_dim of the vectors that the model reads, and what PEFT notes of its layers.
void complete_vectors(AdapterConfig& config, const Model& model);
void check_prompt_fields(const AdapterConfig& config);

// The vectors [..., D] of tokens, as inputs_embeds has them.
Tensor token_vectors(const Model& model, const Tensor& ids, ForwardContext& context);

// Layers on the way from vectors to virtual tokens; their tensors are kept for training alone.
class PromptLayers {
 public:
  explicit PromptLayers(AdapterMaking& making) : making_(making) {}
  std::shared_ptr<Parameter> normal(const std::string& name, const Shape& shape);
  // As torch.nn.Linear and torch.nn.LSTM draw them.
  std::shared_ptr<Parameter> uniform(const std::string& name, const Shape& shape, int64_t inputs, bool zero = false);
  struct Layer {
    std::shared_ptr<Parameter> weight, bias;
    Tensor operator()(const Tensor& x, const Computing& computing) const;
  };
  Layer linear(const std::string& name, int64_t in, int64_t out, bool zero = false);

 private:
  AdapterMaking& making_;
};

}  // namespace transom
