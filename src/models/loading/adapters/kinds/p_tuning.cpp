// SPDX-License-Identifier: Apache-2.0
// P-tuning (Liu et al., 2021): vectors before the tokens of each row, which an LSTM or a few linear layers make from
// others. PEFT's file holds what these make, and its training cannot go on; here they are kept beside it.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/adapters/kinds/prompt_learning.h"
#include "models/nn/layers.h"

namespace transom {
namespace {

// An LSTM (Hochreiter and Schmidhuber, 1997) over a sequence [n, in] -> [n, hidden], forwards or backwards; gates stand
// in the order input, forget, cell, output, as PyTorch has them.
class LstmDirection {
 public:
  LstmDirection(PromptLayers& layers, const std::string& ending, int64_t in, int64_t hidden, bool reversed)
      : hidden_(hidden),
        reversed_(reversed),
        input_(layers.uniform("prompt_encoder.lstm_head.weight_ih" + ending, {4 * hidden, in}, hidden)),
        state_(layers.uniform("prompt_encoder.lstm_head.weight_hh" + ending, {4 * hidden, hidden}, hidden)),
        input_bias_(layers.uniform("prompt_encoder.lstm_head.bias_ih" + ending, {4 * hidden}, hidden)),
        state_bias_(layers.uniform("prompt_encoder.lstm_head.bias_hh" + ending, {4 * hidden}, hidden)) {}

  Tensor operator()(const Tensor& x, const Computing& computing) const {
    const int64_t count = x.dim(0);
    const Tensor of_inputs = linear(x, input_->value, input_bias_->value + state_bias_->value, computing);
    Tensor h, c;
    std::vector<Tensor> outputs(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t t = reversed_ ? count - 1 - i : i;
      Tensor gates = slice(of_inputs, 0, t, t + 1);
      if (h.defined()) gates = gates + linear(h, state_->value, {}, computing);
      const auto gate = [&](int64_t k) { return slice(gates, 1, k * hidden_, (k + 1) * hidden_); };
      const Tensor added = sigmoid(gate(0)) * tanh(gate(2));
      c = c.defined() ? sigmoid(gate(1)) * c + added : added;
      h = sigmoid(gate(3)) * tanh(c);
      outputs[static_cast<size_t>(t)] = h;
    }
    return concatenate(outputs, 0);
  }

 private:
  int64_t hidden_;
  bool reversed_;
  std::shared_ptr<Parameter> input_, state_, input_bias_, state_bias_;
};

class EncodedVectors : public VirtualTokens {
 public:
  EncodedVectors(AdapterMaking& making, int64_t count, int64_t width) {
    PromptLayers layers(making);
    const Config& fields = making.config.fields();
    const int64_t hidden = fields.get_int("encoder_hidden_size", width);
    dropout_ = fields.get_float("encoder_dropout", 0);
    vectors_ = layers.normal("prompt_encoder.embedding.weight", {count, width});
    if (fields.get_string("encoder_reparameterization_type", "MLP") == "MLP") {
      head_ = {layers.linear("prompt_encoder.mlp_head.0", width, hidden),
               layers.linear("prompt_encoder.mlp_head.2", hidden, hidden),
               layers.linear("prompt_encoder.mlp_head.4", hidden, width)};
      return;
    }
    for (int64_t i = 0; i < fields.get_int("encoder_num_layers", 2); ++i) {
      const std::string ending = "_l" + std::to_string(i);
      const int64_t in = i == 0 ? width : 2 * hidden;
      LstmDirection forwards(layers, ending, in, hidden, false);
      lstm_.emplace_back(std::move(forwards), LstmDirection(layers, ending + "_reverse", in, hidden, true));
    }
    head_ = {layers.linear("prompt_encoder.mlp_head.0", 2 * hidden, 2 * hidden),
             layers.linear("prompt_encoder.mlp_head.2", 2 * hidden, width)};
  }

  int64_t count() const override { return vectors_->value.dim(0); }
  Tensor embeddings(ForwardContext& context) const override {
    Tensor x = vectors_->value;
    for (size_t i = 0; i < lstm_.size(); ++i) {
      if (i > 0) x = Dropout(dropout_)(x, context);
      x = concatenate({lstm_[i].first(x, context.computing), lstm_[i].second(x, context.computing)}, 1);
    }
    for (size_t i = 0; i < head_.size(); ++i) x = head_[i](i > 0 ? relu(x) : x, context.computing);
    return x;
  }
  std::vector<KeysAndValues> keys_and_values(ForwardContext&) const override { return {}; }
  Tensor saved() const override {
    const NoGradient values_alone;
    ForwardContext context;
    return embeddings(context);
  }

 private:
  std::shared_ptr<Parameter> vectors_;  // [n, D]
  std::vector<std::pair<LstmDirection, LstmDirection>> lstm_;
  std::vector<PromptLayers::Layer> head_;  // with relu between them
  double dropout_ = 0;
};

// What the encoder made, of a file of PEFT.
class MadeVectors : public VirtualTokens {
 public:
  explicit MadeVectors(std::shared_ptr<Parameter> vectors) : vectors_(std::move(vectors)) {}
  int64_t count() const override { return vectors_->value.dim(0); }
  Tensor embeddings(ForwardContext&) const override { return vectors_->value; }
  std::vector<KeysAndValues> keys_and_values(ForwardContext&) const override { return {}; }
  Tensor saved() const override { return vectors_->value; }

 private:
  std::shared_ptr<Parameter> vectors_;
};

std::unique_ptr<VirtualTokens> make_p_tuning(AdapterMaking& making) {
  expect_vectors_taken(making.config, making.model);
  const int64_t count = count_of_virtual_tokens(making.config), width = making.config.fields().get_int("token_dim");
  if (making.reads_training() || !making.reads_file()) return std::make_unique<EncodedVectors>(making, count, width);
  const auto drawn = [&] { return draw_normal(making.generator, count * width); };
  return std::make_unique<MadeVectors>(making.tensor("prompt_embeddings", {count, width}, drawn));
}

void check_p_tuning(const AdapterConfig& config) {
  check_prompt_fields(config);
  const Config& fields = config.fields();
  const std::string type = fields.get_string("encoder_reparameterization_type", "MLP");
  if (type != "MLP" && type != "LSTM")
    fail("{}: encoder_reparameterization_type: expected MLP or LSTM, found {}", config.where(), transom::quoted(type));
  for (const auto& [field, most] : {std::pair("encoder_hidden_size", 1 << 20), std::pair("encoder_num_layers", 64)})
    if (const int64_t found = fields.get_int(field, 1); found < 1 || found > most)
      fail("{}: {}: expected a number from 1 to {}, found {}", config.where(), field, most, found);
}

void complete_p_tuning(AdapterConfig& config, const Model& model) {
  complete_vectors(config, model);
  if (!config.fields().has("encoder_hidden_size"))
    config.set("encoder_hidden_size", config.fields().get_int("token_dim"));
}

AdapterKind p_tuning_kind() {
  return {
      .type = "P_TUNING",
      .what = "vectors before the tokens of each row, made by an encoder",
      .defaults = "{" TRANSOM_PROMPT_FIELDS
                  R"(, "encoder_dropout": 0.0, "encoder_hidden_size": null, "encoder_num_layers": 2,
            "encoder_reparameterization_type": "MLP"})",
      .carried_out = {"encoder_dropout", "encoder_hidden_size", "encoder_num_layers", "encoder_reparameterization_type",
                      "num_transformer_submodules", "num_virtual_tokens", "token_dim"},
      .without_effect = {"num_attention_heads", "num_layers"},
      .virtual_tokens = make_p_tuning,
      .check = check_p_tuning,
      .complete = complete_p_tuning,
      .prefix = "base_model.",
      .unmerged = kVirtualTokensStay};
}

const RegisterAdapterKind kPTuning{p_tuning_kind};

}  // namespace
}  // namespace transom
