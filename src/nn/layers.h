// SPDX-License-Identifier: Apache-2.0
// The layers that models are made of. Letters: B batch, T time, D hidden, V vocabulary.
#pragma once

#include "nn/scope.h"
#include "transom/ops.h"

namespace transom {

// x [..., in] -> [..., out]
class Linear {
 public:
  struct Options {
    bool bias = true;
    double deviation = 0.02;  // of new weights
  };
  Linear(const Scope& scope, int64_t in, int64_t out, const Options& options);
  Linear(const Scope& scope, int64_t in, int64_t out) : Linear(scope, in, out, Options{}) {}
  Tensor operator()(const Tensor& x) const;

 private:
  std::string path_;
  std::shared_ptr<Parameter> weight_, bias_;
};

// ids [...] -> [..., D]. The vector of the id `padding` (none: -1) is not trained, as in torch.nn.Embedding.
class Embedding {
 public:
  Embedding(const Scope& scope, int64_t count, int64_t width, double deviation = 0.02, int64_t padding = -1);
  Tensor operator()(const Tensor& ids) const;
  const std::shared_ptr<Parameter>& weight() const { return weight_; }

 private:
  std::string path_;
  int64_t padding_;
  std::shared_ptr<Parameter> weight_;
};

// Without a bias the norm only scales.
class LayerNorm {
 public:
  LayerNorm(const Scope& scope, int64_t width, double epsilon, bool bias = true);
  Tensor operator()(const Tensor& x) const;

 private:
  std::string path_;
  std::shared_ptr<Parameter> weight_, bias_;
  double epsilon_;
};

// Does nothing outside of training.
class Dropout {
 public:
  explicit Dropout(double probability) : probability_(probability) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const;
  bool applies(const ForwardContext& context) const { return context.training && probability_ > 0; }
  double probability() const { return probability_; }

 private:
  double probability_;
};

// In training, leaves out a whole layer at random (Fan et al., 2019): gives what went in, or what came out.
class LayerDrop {
 public:
  explicit LayerDrop(double probability) : probability_(probability) {}
  Tensor operator()(const Tensor& in, const Tensor& out, ForwardContext& context) const;

 private:
  double probability_;
};

// A key for the next random draw of this pass; each draw has its own offset, passes are set apart by the key.
Tensor next_random_key(ForwardContext& context);

// A decoder over the vocabulary whose weight is the word embedding, or its own: hidden [..., D] -> logits [..., V].
class TiedDecoder {
 public:
  // `bias` is the bias' full name under the scope; `weight` the untied weight's.
  TiedDecoder(const Scope& scope, const std::string& bias, const std::string& weight, const Embedding& embedding,
              bool tied, int64_t width, int64_t vocabulary, double deviation);
  Tensor operator()(const Tensor& hidden) const;

 private:
  std::shared_ptr<Parameter> weight_, bias_;
};

}  // namespace transom
