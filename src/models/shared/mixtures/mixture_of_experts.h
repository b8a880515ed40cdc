// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/nn/layers.h"

namespace transom {

// What the modules of such a layer are called in checkpoints.
struct ExpertNames {
  std::string block;           // the layer: "mlp"
  std::string gate, down, up;  // of an expert
};
const ExpertNames& mixtral_expert_names();  // block_sparse_moe; w1, w2, w3
const ExpertNames& gated_expert_names();    // mlp; gate_proj, down_proj, up_proj: Qwen and most later ones

struct ExpertsConfig {
  int64_t experts = 8, experts_per_token = 2, width = 0, intermediate_width = 0;
  std::string activation = "silu";
  double deviation = 0.02;
  double auxiliary_weight = 0;  // of the loss that balances the experts; 0: none
  double jitter = 0;            // by which training shakes what the router sees; other than 0 is not carried out
  ExpertNames names = mixtral_expert_names();
  bool shares_sum_to_one = true;  // the chosen experts' probabilities are divided by their sum
  int64_t shared_width = 0;       // of one more expert for every token, with a gate of its own: Qwen 2; 0: none
  std::vector<bool> layers;       // which of the model's layers have experts; empty: all
  bool at(size_t layer) const { return layers.empty() || layers[layer]; }
};

// The sparse feed-forward layer of Mixtral (Jiang et al., 2024): a gate chooses for each token the experts whose gated
// feed-forward layers it goes through; their results are weighed by the softmax over the chosen ones, or over all.
// Plain weights are multiplied with the tokens of their expert alone. Compressed ones, those with adapters, and those
// that are watched or must give the same bits in any company are given every token, and what was not chosen is dropped.
class MixtureOfExperts {
 public:
  MixtureOfExperts(const Scope& scope, const ExpertsConfig& config);
  // x [B, T, D] -> [B, T, D]; router logits [B T, experts] go to `router` if it is given.
  Tensor operator()(const Tensor& x, ForwardContext& context, std::vector<Tensor>* router) const;

 private:
  struct Weight {
    std::string path;
    std::shared_ptr<Parameter> parameter;
    Tensor operator()(const Tensor& x, ForwardContext& context) const;
  };
  struct Expert {
    Weight gate, down, up;
  };
  // The expert that every token goes through, as much as a gate of its own lets by.
  struct SharedExpert {
    SharedExpert(const Scope& scope, const ExpertsConfig& config);
    Linear gate_proj, up_proj, down_proj, gate;
  };
  bool are_plain(const Computing& computing) const;
  Tensor grouped(const Tensor& tokens, const Tensor& chosen, const Tensor& shares, const Computing& computing) const;
  Tensor dense(const Tensor& tokens, const Tensor& chosen, const Tensor& shares, ForwardContext& context) const;

  ExpertsConfig config_;
  Linear gate_;
  std::string path_;
  std::vector<Expert> experts_;
  std::optional<SharedExpert> shared_;
};

// How unevenly tokens are spread over experts (Fedus et al., "Switch Transformers", 2021, equations 4 to 6, over all
// layers): logits [B T, experts] of each layer, mask [B, T] or empty -> [].
Tensor load_balancing_loss(const std::vector<Tensor>& router_logits, int64_t experts_per_token, const Tensor& mask);

}  // namespace transom
