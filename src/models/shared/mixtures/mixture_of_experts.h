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
  std::string gate, down, up;  // of an expert; without a gate (empty) it is down(activation(up(x)))
};
const ExpertNames& mixtral_expert_names();  // block_sparse_moe; w1, w2, w3
const ExpertNames& gated_expert_names();    // mlp; gate_proj, down_proj, up_proj: Qwen and most later ones
// Granite, whose files always have the experts of a layer together: block_sparse_moe; input_linear.gate, output_linear,
// input_linear.up, of which the first and the last are one tensor.
const ExpertNames& granite_expert_names();

// How the experts of a token and their shares follow from the logits of a router.
struct RouterPlan {
  enum class Scores {
    kSoftmax,          // over all experts
    kSoftmaxOfChosen,  // the largest logits choose, and the softmax is over these
    kSigmoid,
  } scores = Scores::kSoftmax;
  std::string module = "gate";
  bool bias = false;               // of its layer
  bool wide = false;               // its layer computes in f32, whatever the model computes in
  std::string correction;          // a buffer that is added to scores for the choice alone; empty: none
  bool correction_beside = false;  // it stands beside the router's module, not in it
  // Experts stand in groups, of which a token sees those with the best scores: the largest of an expert, or the sum of
  // the two largest. 1: all are one group.
  int64_t groups = 1, seen_groups = 1;
  bool two_largest = false;
  double epsilon = 0;  // added to the sum that shares are divided by
  double factor = 1;   // of shares
  // Gemma 4: what it reads is normed as by RMS, times a parameter [D] over the root of D; and shares are multiplied
  // with a parameter [experts]. Their names in the layer; empty: none.
  std::string scale, expert_scale;
  double norm_epsilon = 1e-6;
};

// What an expert makes of its gate g and its other layer u.
struct ExpertGate {
  // (min(max(u, -limit), limit) + 1) g' sigmoid(sharpness g') with g' = min(g, limit); without a limit activation(g) u.
  std::optional<double> limit = {};
  double sharpness = 1;
};

struct ExpertsConfig {
  int64_t experts = 8, experts_per_token = 2, width = 0, intermediate_width = 0;
  std::string activation = "silu";
  double deviation = 0.02;
  double auxiliary_weight = 0;  // of the loss that balances the experts; 0: none
  double jitter = 0;            // by which training shakes what the router sees; other than 0 is not carried out
  ExpertNames names = mixtral_expert_names();
  bool shares_sum_to_one = true;  // the chosen experts' probabilities are divided by their sum
  bool biases = false;            // of the layers of experts
  ExpertGate gate = {};
  RouterPlan router = {};
  int64_t shared_width = 0;              // of one more expert for every token; 0: none
  std::string shared = "shared_expert";  // its module
  bool shared_gate = true;               // it has a gate of its own: Qwen 2
  bool shared_bias = false;
  // Above 0: experts read, and make, vectors of so many numbers, into which and out of which layers lead (Nemotron-H).
  int64_t latent_width = 0;
  std::string latent_in = "fc1_latent_proj", latent_out = "fc2_latent_proj";
  bool latent_bias = false;
  std::vector<bool> layers;  // which of the model's layers have experts; empty: all
  bool at(size_t layer) const { return layers.empty() || layers[layer]; }
};

// The sparse feed-forward layer of Mixtral (Jiang et al., 2024) and its kin: a router chooses for each token the
// experts whose gated feed-forward layers it goes through; their results are weighed by the softmax over the chosen
// ones, or over all. Plain weights, and compressed ones of one form, are multiplied with the tokens of their expert
// alone. Those with adapters, those that are watched, and plain ones that must give the same bits in any company are
// given every token, and what was not chosen is dropped.
class MixtureOfExperts {
 public:
  MixtureOfExperts(const Scope& scope, const ExpertsConfig& config);
  // x [B, T, D] -> [B, T, D]; router logits [B T, experts] go to `router` if it is given.
  // `routed` [B, T, D]: what the router reads; empty: x.
  Tensor operator()(const Tensor& x, ForwardContext& context, std::vector<Tensor>* router,
                    const Tensor& routed = {}) const;

 private:
  struct Weight {
    std::string path;
    std::shared_ptr<Parameter> parameter, bias;  // the second may be null
    Tensor operator()(const Tensor& x, ForwardContext& context) const;
  };
  struct Expert {
    Weight gate, down, up;
  };
  // The expert that every token goes through, as much as a gate of its own lets by where there is one.
  struct SharedExpert {
    SharedExpert(const Scope& scope, const ExpertsConfig& config);
    std::optional<Linear> gate_proj;
    Linear up_proj, down_proj;
    std::optional<Linear> gate;
  };
  // Of each token the experts, i64 [N, k], and their shares, f32 [N, k].
  struct Choice {
    Tensor experts, shares;
  };
  Tensor router_logits(const Tensor& tokens, ForwardContext& context) const;
  Choice choose(const Tensor& logits, const Computing& computing) const;
  Tensor seen(const Tensor& scores) const;
  Tensor scaled(const Tensor& tokens, const Computing& computing) const;
  Tensor gated(const Tensor& gate, const Tensor& up) const;
  Tensor shared(const Tensor& tokens, ForwardContext& context) const;
  bool has_gates() const { return !config_.names.gate.empty(); }
  static Tensor biases_of(const std::vector<std::shared_ptr<Parameter>>& biases, const Tensor& chosen);
  bool are_plain(const Computing& computing) const;
  Tensor grouped(const Tensor& tokens, const Tensor& chosen, const Tensor& shares, const Computing& computing) const;
  Tensor dense(const Tensor& tokens, const Tensor& chosen, const Tensor& shares, ForwardContext& context) const;

  ExpertsConfig config_;
  Weight router_;
  std::shared_ptr<Parameter> correction_, scale_, expert_scale_;  // null: none
  std::string path_;
  std::vector<Expert> experts_;
  std::optional<SharedExpert> shared_;
  std::optional<Linear> latent_in_, latent_out_;
};

// How unevenly tokens are spread over experts (Fedus et al., "Switch Transformers", 2021, equations 4 to 6, over all
// layers): logits [B T, experts] of each layer, mask [B, T] or empty -> [].
Tensor load_balancing_loss(const std::vector<Tensor>& router_logits, int64_t experts_per_token, const Tensor& mask);

}  // namespace transom
