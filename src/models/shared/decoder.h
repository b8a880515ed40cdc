// SPDX-License-Identifier: Apache-2.0
// What the bodies of decoder-only language models share: checked inputs, the way through the layers, and the heads on
// them. B batch, T time, D hidden, V vocabulary.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "files/config/config.h"
#include "models/family.h"
#include "models/generative.h"
#include "models/nn/attention/attention.h"
#include "transom/gradients.h"

namespace transom {

struct DecoderInputs {
  Tensor input_ids, inputs_embeds;  // [B, T] or [B, T, D]: exactly one of them
  Tensor position_ids;              // [B, T] or [1, T], from 0
  Tensor attention_mask;            // [B, S] or empty; with a cache, of all its places
  Tensor bias;                      // additive, for `attention`; empty with a cache, which hides padding itself
  bool causal = true;               // false: `bias` says all, a mask of four axes
  int64_t batch = 0, length = 0;    // B, T
};

enum class Positions {
  kInOrder,  // 0, 1, 2, ... whatever the mask says
  kByMask,   // padding is not counted and stays at -1
  kNone,     // the model has no use for them
};

// The target of each position: the label [B, T] of the next one, and nothing (-100) at the end.
Tensor next_labels(const Tensor& labels);

// max_positions 0: no limit.
DecoderInputs decoder_inputs(const NamedTensors& inputs, const ForwardContext& context, Positions positions,
                             int64_t max_positions = 0);

struct DecoderOutput {
  Tensor last_hidden_state;  // [B, T, D]
  std::vector<Tensor>
      hidden_states;  // embeddings, then each layer's, the last one normed, if the context asks for them
  std::vector<Tensor> router_logits;  // of mixtures of experts, one a layer, [B T, experts]
};

// x through layers, each of which is called as call(layer, x), then through `norm`.
template <typename Layer, typename Norm, typename Call>
DecoderOutput through_decoder(const std::vector<Layer>& layers, Tensor x, ForwardContext& context, const Norm& norm,
                              const Call& call) {
  DecoderOutput output;
  for (const Layer& layer : layers) {
    if (context.output_hidden_states) output.hidden_states.push_back(x);
    if (context.gradient_checkpointing && context.training)
      x = checkpoint([&](const std::vector<Tensor>& in) { return call(layer, in[0]); }, {x});
    else x = call(layer, x);
  }
  output.last_hidden_state = norm(x, context);
  if (context.output_hidden_states) output.hidden_states.push_back(output.last_hidden_state);
  return output;
}

// What a head needs to know of the body that it stands on.
struct DecoderTraits {
  int64_t vocab_size = 0, width = 0;  // of the last hidden states
  bool tie_word_embeddings = true;
  double initializer_range = 0.02;
  double logit_multiplier = 1, logit_soft_cap = 0;     // in this order; the second 0: none
  bool head_bias = false;                              // of the layer over the vocabulary
  std::string head = "lm_head", token_head = "score";  // names of the output layers
  std::optional<int64_t> pad_token_id;
  int64_t max_positions = 0, cache_expires_at = 0;
  double auxiliary_weight = 0;
  bool texts_in_rows = true;  // whether several texts may stand in a row, each of which sees itself alone
};

// The body of a decoder-only model.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual DecoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const = 0;
  virtual DecoderTraits traits() const = 0;
  virtual const Embedding& word_embeddings() const = 0;
  // Of tokens [B, T], as inputs_embeds has them.
  virtual Tensor embed(const Tensor& input_ids, ForwardContext& context) const {
    return word_embeddings()(input_ids, context);
  }
  virtual std::vector<std::string> input_names() const {
    return {"input_ids", "attention_mask", "position_ids", "inputs_embeds"};
  }
  // What a mixture of experts adds to the loss, and shows; empty for all others.
  virtual Tensor auxiliary_loss(const DecoderOutput&, const NamedTensors&) const { return {}; }

  // ---- of bodies that read more than tokens and embeddings: what GenerativeModel asks for by the same names
  // Whether some of these inputs are such.
  virtual bool reads_beside_tokens(const NamedTensors&) const { return false; }
  virtual std::vector<std::vector<AttachedInput>> attached_inputs(const NamedTensors&, ForwardContext&) const {
    return {};
  }
  virtual Tensor run_embedding(const NamedTensors&, ForwardContext&) const { return {}; }
};

using MakeDecoder = std::unique_ptr<Decoder> (*)(const Config& config, const Scope& scope);
// The same of a family that is read from a file.
using DecoderMaker = std::function<std::unique_ptr<Decoder>(const Config& config, const Scope& scope)>;

// ---- heads (decoder_heads.cpp)
enum class DecoderHead { kNone, kCausalLM, kSequenceClassification, kTokenClassification, kQuestionAnswering };
// `prefix` is the body's name inside a model with a head.
std::unique_ptr<Model> make_decoder_model(const Config& config, const Scope& scope, const DecoderMaker& body,
                                          const std::string& prefix, DecoderHead head);

// The body of a model that make_decoder_model() has made; refuses others.
const Decoder& body_of(const Model& model);

// What the output layers of a family are called, by their names in checkpoints and in Transformers.
struct DecoderHeadNames {
  std::vector<std::string> vocabulary = {"lm_head"};
  std::string tokens = "score";
  LossDivisor divisor = LossDivisor::kOwn;  // of the class that predicts tokens
};
FamilyHead head_of(DecoderHead head, const DecoderHeadNames& names);

// The architecture of one class of a family: decoder_architecture<make_gpt2, kPrefix, DecoderHead::kCausalLM>("...").
template <MakeDecoder body, const char* prefix, DecoderHead head>
Architecture decoder_architecture(std::string name, const DecoderHeadNames& names = {}) {
  return {std::move(name), head_of(head, names), [](const Config& config, const Scope& scope) {
            return make_decoder_model(config, scope, body, prefix, head);
          }};
}

// Classes that are named as LLaMA's: XModel, XForCausalLM, XForSequenceClassification ...
template <MakeDecoder body, const char* prefix>
std::vector<Architecture> decoder_architectures(const std::string& name, const DecoderHeadNames& names = {}) {
  return {
      decoder_architecture<body, prefix, DecoderHead::kNone>(name + "Model", names),
      decoder_architecture<body, prefix, DecoderHead::kCausalLM>(name + "ForCausalLM", names),
      decoder_architecture<body, prefix, DecoderHead::kSequenceClassification>(name + "ForSequenceClassification",
                                                                               names),
      decoder_architecture<body, prefix, DecoderHead::kTokenClassification>(name + "ForTokenClassification", names)};
}

// The same with a head that finds answers. Some classes call the body `answers_prefix` there, and not as in their other
// ones.
template <MakeDecoder body, const char* prefix, const char* answers_prefix>
std::vector<Architecture> answering_decoder_architectures(const std::string& name, const DecoderHeadNames& names = {}) {
  std::vector<Architecture> all = decoder_architectures<body, prefix>(name, names);
  all.push_back(decoder_architecture<body, answers_prefix, DecoderHead::kQuestionAnswering>(
      name + "ForQuestionAnswering", names));
  return all;
}

}  // namespace transom
