// SPDX-License-Identifier: Apache-2.0
// What Mamba, Falcon Mamba and Mamba-2 share: their fields, the stack of blocks, and their records.
#pragma once

#include <functional>
#include <string>

#include "base/json/json_fwd.h"
#include "files/family/gguf.h"
#include "models/shared/decoder.h"
#include "transom/layers.h"

namespace transom {

struct MambaConfig {
  // With the values that hold where config.json is silent.
  MambaConfig(const Config& config, bool tied);
  int64_t vocab_size, hidden_size, state_size, layers, intermediate_size, conv_kernel;
  double layer_norm_epsilon, initializer_range;
  bool use_bias, use_conv_bias, residual_in_fp32, tie_word_embeddings, rescales_residual;
  std::string hidden_act;
  double time_step_min, time_step_max, time_step_floor;  // of new weights
  std::optional<int64_t> pad_token_id;

  // Of new weights: the bias of steps before softplus, spread over what they may be.
  std::vector<float> step_biases(int64_t count) const;
  double output_deviation() const;
};

// A block's mixer: x [B, T, D] -> [B, T, D].
using MambaMixer = std::function<Tensor(const Tensor& x, const Tensor& attention_mask, ForwardContext& context)>;
using MakeMambaMixer = std::function<MambaMixer(const Scope& scope, int64_t layer)>;

// x + mixer(norm(x)), block after block.
std::unique_ptr<Decoder> make_mamba_body(const MambaConfig& config, const Scope& scope, const MakeMambaMixer& mixer);

// The record of classes NAMEModel and NAMEForCausalLM, whose body is called `backbone`.
Family mamba_record(const std::string& model_type, const std::string& name, MakeDecoder body, GgufFamily gguf);

// What the families have in common in GGUF: keys, and names besides those of `mixer`.
GgufFamily mamba_gguf(const std::string& architecture, const std::string& model_class, std::vector<GgufName> mixer);
// A number of a file's metadata, which is an error where it is missing.
Json mamba_key(const Json& metadata, const char* part, const char* key);
// A whole number of config.json, or `otherwise`.
int64_t mamba_count(const Json& config, const char* field, int64_t otherwise);

}  // namespace transom
