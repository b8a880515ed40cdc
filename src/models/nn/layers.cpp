// SPDX-License-Identifier: Apache-2.0
#include "models/nn/layers.h"

#include "base/error.h"
#include "models/nn/noisy_embedding.h"
#include "models/nn/weight.h"

namespace transom {

Linear::Linear(const Scope& scope, int64_t in, int64_t out, const Options& options)
    : path_(scope.path()), weight_(scope.parameter("weight", {out, in}, Initial::normal(options.deviation))) {
  weight_->use = Parameter::Use::kLinear;
  if (options.bias) bias_ = scope.parameter("bias", {out}, Initial::zeros());
}

Tensor Linear::operator()(const Tensor& x, ForwardContext& context) const {
  const ModuleScope module(path_);
  return linear(x, *weight_, bias_ ? bias_->value : Tensor(), context);
}

Embedding::Embedding(const Scope& scope, int64_t count, int64_t width, double deviation, int64_t padding)
    : path_(scope.path()),
      padding_(padding),
      weight_(scope.parameter("weight", {count, width}, Initial::normal(deviation, padding))) {
  weight_->is_table = true;
}

Tensor Embedding::operator()(const Tensor& ids, const ForwardContext& context) const {
  const ModuleScope module(path_);
  Tensor vectors = rows_of(*weight_, ids, context.computing);
  if (NoisyEmbedding* noise = context.computing.noise) vectors = noise->with_noise(weight_, vectors);
  if (padding_ < 0 || !vectors.requires_grad()) return vectors;
  // The padding token's vector is not trained. Without gradients both sides are one value, and the choice disappears.
  const Tensor is_padding = unsqueeze(equal(ids, full(ids.shape(), static_cast<double>(padding_), ids.dtype())), -1);
  return select(is_padding, vectors.detach(), vectors);
}

LayerNorm::LayerNorm(const Scope& scope, int64_t width, double epsilon, bool bias)
    : path_(scope.path()), weight_(scope.parameter("weight", {width}, Initial::ones())), epsilon_(epsilon) {
  if (bias) bias_ = scope.parameter("bias", {width}, Initial::zeros());
  weight_->of_layer_norm = true;
  if (bias_) bias_->of_layer_norm = true;
}

Tensor LayerNorm::operator()(const Tensor& x, const ForwardContext& context) const {
  const ModuleScope module(path_);
  const Tensor& weight = weight_->value;
  return layer_norm(x, weight, bias_ ? bias_->value : full(weight.shape(), 0, weight.dtype()), epsilon_,
                    context.computing);
}

Tensor random_key(uint64_t seed, int64_t step) {
  return Tensor::from(std::vector<int64_t>{static_cast<int64_t>(seed), step << 20}, {2});
}

Tensor next_random_key(ForwardContext& context) {
  if (!context.dropout_key.defined())
    fail(ErrorKind::kInternal, "training with random draws needs ForwardContext::dropout_key");
  return context.dropout_key + iota({2}, 0) * static_cast<double>(context.dropouts++);
}

Tensor Dropout::operator()(const Tensor& x, ForwardContext& context) const {
  if (!applies(context)) return x;
  return dropout(x, next_random_key(context), probability_);
}

Tensor LayerDrop::operator()(const Tensor& in, const Tensor& out, ForwardContext& context) const {
  if (!context.training || probability_ == 0) return out;
  const Tensor drawn = random_uniform(next_random_key(context), Shape(static_cast<size_t>(in.rank()), 1));
  const Tensor kept = greater_equal(drawn, full(drawn.shape(), probability_));
  return select(broadcast_to(kept, in.shape()), out, in);
}

TiedDecoder::TiedDecoder(const Scope& scope, const std::string& bias, const std::string& weight,
                         const Embedding& embedding, bool tied, int64_t width, int64_t vocabulary, double deviation)
    : weight_(tied ? embedding.weight() : scope.parameter(weight, {vocabulary, width}, Initial::normal(deviation))),
      bias_(scope.parameter(bias, {vocabulary}, Initial::zeros())) {
  if (tied) scope.tied(weight, weight_);
  // Where the decoder's own bias is another one, that is what it adds.
  if (bias == "bias" && weight == "decoder.weight") scope.tied("decoder.bias", bias_, Tie::kAlone);
  if (bias == "decoder.bias" && !scope.holds(bias)) scope.tied("bias", bias_);
  // Transformers writes one more beside it, which nothing adds: kept, so that files stay whole.
  else if (bias == "decoder.bias" && scope.holds("bias")) scope.parameter("bias", {vocabulary}, Initial::zeros());
}

Tensor TiedDecoder::operator()(const Tensor& hidden, ForwardContext& context) const {
  return linear(hidden, *weight_, bias_->value, context);
}

}  // namespace transom
