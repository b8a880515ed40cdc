// SPDX-License-Identifier: Apache-2.0
#include "models/sentences/sentence_head.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "files/checkpoint/checkpoint.h"
#include "files/checkpoint/safetensors.h"
#include "transom/ops.h"

namespace transom {
namespace {

// The classes of torch.nn by the last part of their names, with their default arguments.
using Activation = Tensor (*)(const Tensor& x);
constexpr std::pair<std::string_view, Activation> kActivations[] = {
    {"ELU", [](const Tensor& x) { return select(greater(x, constant(0)), x, expm1(minimum(x, constant(0)))); }},
    {"GELU", gelu},
    {"Hardtanh", [](const Tensor& x) { return minimum(maximum(x, constant(-1)), constant(1)); }},
    {"Identity", [](const Tensor& x) { return x; }},
    {"LeakyReLU", [](const Tensor& x) { return maximum(x, x * 0.01); }},
    {"LogSigmoid", [](const Tensor& x) { return neg(softplus(neg(x))); }},
    {"Mish", [](const Tensor& x) { return x * tanh(softplus(x)); }},
    {"ReLU", relu},
    {"ReLU6", [](const Tensor& x) { return minimum(relu(x), constant(6)); }},
    {"SiLU", silu},
    {"Sigmoid", sigmoid},
    {"Softplus", softplus},
    {"Softsign", [](const Tensor& x) { return x / (1 + abs(x)); }},
    {"Tanh", tanh},
    {"Tanhshrink", [](const Tensor& x) { return x - tanh(x); }},
};

Activation activation_named(const std::string& name, const std::filesystem::path& folder) {
  std::vector<std::string_view> names;
  for (const auto& [known, function] : kActivations) {
    if (known == name) return function;
    names.push_back(known);
  }
  fail(ErrorKind::kUnsupported, "{}: activation_function: expected {} of torch.nn, found {}",
       (folder / "config.json").string(), fmt::join(names, ", "), quoted(name));
}

Tensor weight_of(const Checkpoint& weights, const std::string& name, const Shape& shape) {
  const TensorView* view = weights.find(name);
  if (!view) fail("{}: expected the tensor {}, found none", weights.where(), name);
  if (view->shape != shape)
    fail("{}: {}: expected the shape [{}], found [{}]", weights.where(), name, fmt::join(shape, ", "),
         fmt::join(view->shape, ", "));
  return cast(Tensor::from_bytes(view->bytes, {view->dtype, view->shape}), DType::kFloat32);
}

// Of the tokens of each text the first or the last one that counts: [B, T].
Tensor one_of(const Tensor& counted, bool last) {
  const Tensor place = cumulative_sum(counted, 1);  // small whole numbers: exact
  const Tensor wanted = last ? reduce_sum(counted, {1}, true) : constant(1);
  return counted * cast(equal(place, broadcast_to(wanted, place.shape())), DType::kFloat32);
}

}  // namespace

Tensor at_length_one(const Tensor& x) { return x / sqrt(maximum(reduce_sum(x * x, {-1}, true), constant(1e-24))); }

Tensor pooled(const Tensor& states, const Tensor& counted, PoolingMode mode) {
  if (states.rank() != 3 || counted.shape() != Shape{states.dim(0), states.dim(1)})
    fail("pooling: expected states [B, T, D] and which of them count [B, T], found [{}] and [{}]",
         fmt::join(states.shape(), ", "), fmt::join(counted.shape(), ", "));
  const auto sum = [&](const Tensor& weights) { return reduce_sum(states * unsqueeze(weights, -1), {1}); };
  const auto count = [&](const Tensor& weights) {
    return maximum(reduce_sum(weights, {1}, true), constant(1e-9));  // [B, 1]
  };
  switch (mode) {
    case PoolingMode::kCls:
      return sum(one_of(counted, false));
    case PoolingMode::kLastToken:
      return sum(one_of(counted, true));
    case PoolingMode::kMax: {
      const Tensor counts = greater(unsqueeze(counted, -1), constant(0)), any = reduce_max(counted, {1}, true);
      const Tensor most =
          reduce_max(select(broadcast_to(counts, states.shape()), states, full(states.shape(), kMaskedScore)), {1});
      return select(broadcast_to(greater(any, constant(0)), most.shape()), most, zeros(most.shape()));
    }
    case PoolingMode::kWeightedMean: {
      const Tensor weights = counted * (cast(iota(counted.shape(), 1), DType::kFloat32) + 1.0);
      return sum(weights) / count(weights);
    }
    case PoolingMode::kMeanSqrtLength:
      return sum(counted) / sqrt(count(counted));
    default:
      return sum(counted) / count(counted);
  }
}

SentenceHead::SentenceHead(const SentenceModules& modules, int64_t width)
    : pooling_(modules.pooling),
      sparse_(modules.sparse),
      width_(modules.sparse ? width : width * static_cast<int64_t>(modules.pooling.size())) {
  for (const SentenceLayer& about : modules.layers) {
    Layer& layer = layers_.emplace_back(Layer{about, nullptr, nullptr, nullptr});
    if (about.kind == SentenceLayer::Kind::kNormalize) continue;
    if (about.kind == SentenceLayer::Kind::kDense) activation_named(about.activation, about.folder);
    if (width_ > 0 && about.inputs != width_)
      fail("{}: takes vectors of {} numbers, but gets {}", (about.folder / "config.json").string(), about.inputs,
           width_);
    width_ = about.outputs;
    const auto named = [&](const char* name) {
      auto parameter = std::make_shared<Parameter>();
      parameter->name = about.path + "." + name;
      return parameter;
    };
    const bool norm = about.kind == SentenceLayer::Kind::kLayerNorm;
    layer.weight = named(norm ? "norm.weight" : "linear.weight");
    if (norm || about.bias) layer.bias = named(norm ? "norm.bias" : "linear.bias");
    if (about.residual && about.inputs != about.outputs) layer.residual = named("residual.weight");
    if (norm) layer.weight->of_layer_norm = layer.bias->of_layer_norm = true;
  }
  for (const Layer& layer : layers_) read(layer, layer.about.folder);
}

std::vector<std::shared_ptr<Parameter>> SentenceHead::parameters() const {
  std::vector<std::shared_ptr<Parameter>> all;
  for (const Layer& layer : layers_)
    for (const auto& parameter : {layer.weight, layer.bias, layer.residual})
      if (parameter) all.push_back(parameter);
  return all;
}

void SentenceHead::read(const Layer& layer, const std::filesystem::path& folder) {
  if (!layer.weight) return;
  const Checkpoint weights = Checkpoint::open(folder);
  const int64_t in = layer.about.inputs, out = layer.about.outputs;
  const bool norm = layer.about.kind == SentenceLayer::Kind::kLayerNorm;
  const auto take = [&](const std::shared_ptr<Parameter>& parameter, const Shape& shape) {
    if (parameter) parameter->value = weight_of(weights, parameter->name.substr(layer.about.path.size() + 1), shape);
  };
  take(layer.weight, norm ? Shape{out} : Shape{out, in});
  take(layer.bias, {out});
  take(layer.residual, {out, in});
}

void SentenceHead::load(const std::filesystem::path& directory) {
  for (const Layer& layer : layers_) read(layer, directory / layer.about.path);
}

void SentenceHead::save(const std::filesystem::path& directory) const {
  for (const Layer& layer : layers_) {
    if (!layer.weight) continue;
    const std::string& path = layer.about.path;
    std::vector<std::vector<std::byte>> bytes;
    NamedViews views;
    for (const auto& parameter : {layer.weight, layer.bias, layer.residual}) {
      if (!parameter) continue;
      bytes.push_back(parameter->value.to_bytes());
      views.emplace_back(parameter->name.substr(path.size() + 1),
                         TensorView{parameter->value.dtype(), parameter->value.shape(), bytes.back(), nullptr});
    }
    make_directories(directory / path);
    write_safetensors(directory / path / "model.safetensors", views);
  }
}

Tensor SentenceHead::operator()(const Tensor& states, const Tensor& counted, const Computing& computing,
                                bool normalizes) const {
  if (sparse_) return sparse_weights(states, counted, *sparse_);
  const Tensor hidden = cast(states, DType::kFloat32);
  std::vector<Tensor> parts;
  for (const PoolingMode mode : pooling_) parts.push_back(pooled(hidden, counted, mode));
  Tensor vector = parts.size() == 1 ? parts[0] : concatenate(parts, -1);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const SentenceLayer& about = layer.about;
    if (about.kind == SentenceLayer::Kind::kNormalize) {
      if (i + 1 < layers_.size() || normalizes) vector = at_length_one(vector);
    } else if (about.kind == SentenceLayer::Kind::kLayerNorm) {
      vector = layer_norm(vector, layer.weight->value, layer.bias->value, 1e-5, computing);
    } else {
      const Tensor bias = layer.bias ? layer.bias->value : Tensor();
      Tensor out =
          activation_named(about.activation, about.folder)(linear(vector, layer.weight->value, bias, computing));
      if (about.residual) out = out + (layer.residual ? linear(vector, layer.residual->value, {}, computing) : vector);
      vector = out;
    }
  }
  return vector;
}

}  // namespace transom
