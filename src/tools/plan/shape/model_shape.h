// SPDX-License-Identifier: Apache-2.0
// What a planner needs to know of an architecture: stacks of equal layers, the embeddings and the head.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

struct NetworkLayer;  // plan/shape/network_layers.h

// Layers of one kind that stand one upon the other.
struct LayerStack {
  double layers = 0, hidden = 0, heads = 0, key_value_heads = 0, head_dim = 0, intermediate = 0;
  bool gated = false;              // the feed-forward part has a third matrix
  bool causal = false;             // tokens look back alone
  bool cross = false;              // attends to `cross_tokens` of another stack, too
  bool parameters_shared = false;  // one layer's weights serve all (ALBERT)
  bool fused_attention = false;    // the usual implementation never writes the probabilities to memory
  double experts = 0, experts_per_token = 0, expert_intermediate = 0, shared_intermediate = 0;
  double window = 0;       // tokens that a token sees in local layers; 0: all
  double local_share = 0;  // of the layers that are local
  double norms = 2;        // a layer
  double tokens = 0;       // a sample; 0: the job's sequence_length
  double cross_tokens = 0;

  double attention_weights() const;            // elements of one layer
  double feed_forward_weights() const;         // elements of one layer, all experts
  double active_feed_forward_weights() const;  // elements that one token is multiplied with
  double weights() const { return attention_weights() + feed_forward_weights(); }
};

// What stands behind the last layer.
enum class Head { kNone, kClassifier, kMaskedLanguage, kCausalLanguage };

struct ModelShape {
  std::string name, model_type;
  std::vector<LayerStack> stacks;
  double vocabulary = 0, embedding = 0;  // rows and columns of the token table
  bool tied = false;                     // the head's matrix is the token table
  Head head = Head::kNone;
  double parameters = 0;               // all of them
  double convolution_flops = 0;        // forward, a sample: what is no layer of `stacks`
  double convolution_activations = 0;  // elements that these make, a sample
  double vector_operations = 0;        // of pooling (a window's elements each) and of residual sums, a sample
  double large_maps = 0;               // elements of maps of more than a million, a sample
  std::shared_ptr<const std::vector<NetworkLayer>> network;  // of convolutional ones whose layers are known
  bool separable = false;        // depth-wise and grouped convolutions, which keep matrix engines idle
  double convolution_share = 1;  // of the usual rate of convolutions: less where branches are narrow
  bool images = false;           // the host decodes and resizes pictures
  bool audio = false;
  double default_tokens = 0;  // of a sample where the job states none

  bool is_convolutional() const { return stacks.empty(); }
  double layers() const;
  double layer_parameters() const;    // of all stacks
  const LayerStack& decoder() const;  // the last stack; one without layers where there is none
};

// The names of share/transom/plan/models.json.
std::vector<std::string> known_model_names();
// From the text of a config.json (may be empty), the model's name and the count of its parameters (may be 0). Knows the
// names of share/transom/plan/models.json. Errors of kind kUsage name `config.FIELD`, or `model` where nothing at
// all is known of it.
ModelShape model_shape_of(std::string_view config, const std::string& model, double parameters);

}  // namespace transom
