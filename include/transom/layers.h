// SPDX-License-Identifier: Apache-2.0
// The layers that modules are made of; scope.h says how. Letters: B batch, T time, D hidden, V vocabulary, N images, C
// and O channels. A layer shares its parameters with the source that made them, and may be called by several threads at
// once while nobody trains it; each call has the ForwardContext of its pass.
#pragma once

#include "transom/ops.h"
#include "transom/scope.h"

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
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  std::string path_;
  std::shared_ptr<Parameter> weight_, bias_;
};

// ids [...] -> [..., D]. The vector of the id `padding` (none: -1) is not trained, as in torch.nn.Embedding.
class Embedding {
 public:
  Embedding(const Scope& scope, int64_t count, int64_t width, double deviation = 0.02, int64_t padding = -1);
  Tensor operator()(const Tensor& ids, const ForwardContext& context) const;
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
  Tensor operator()(const Tensor& x, const ForwardContext& context) const;

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

// Root mean square norm with a scale: [..., D] -> [..., D].
class RmsNorm {
 public:
  // from_one: the weight is what the scale has above 1, as in Gemma.
  RmsNorm(const Scope& scope, int64_t width, double epsilon, bool from_one = false)
      : path_(scope.path()),
        weight_(scope.parameter("weight", {width}, from_one ? Initial::zeros() : Initial::ones())),
        epsilon_(epsilon),
        from_one_(from_one) {}
  Tensor operator()(const Tensor& x, const ForwardContext& context) const {
    const ModuleScope module(path_);
    return rms_norm(x, from_one_ ? weight_->value + 1.0 : weight_->value, epsilon_, context.computing);
  }

 private:
  std::string path_;
  std::shared_ptr<Parameter> weight_;
  double epsilon_;
  bool from_one_;
};

// x [N, C, spatial...] -> [N, O, spatial...]
class Convolution {
 public:
  struct Options {
    Axes strides, low, high, dilations;  // one number a spatial axis; empty: 1, 0, 0, 1
    int64_t groups = 1;
    bool bias = true;
    double deviation = 0;  // of new weights; 0: sqrt(2 / fan out), as He et al. (2015) have it
  };
  // `window`: one extent a spatial axis.
  Convolution(const Scope& scope, int64_t in, int64_t out, const Axes& window, const Options& options);
  Tensor operator()(const Tensor& x, const ForwardContext& context) const;
  // Where the weight is of integers whose inputs have a scale of their own: x as those integers, which operator() takes
  // in x's place, and the numbers that they stand for; else an empty Tensor.
  Tensor codes_of(const Tensor& x) const;
  Tensor numbers_of(const Tensor& codes) const;
  // Whether both read one x as the same integers.
  bool reads_as(const Convolution& other) const;

  // Options of a square window over images, padded so that a stride of 1 keeps their size.
  static Options same(int64_t window, int64_t stride = 1, int64_t groups = 1, bool bias = false);

 private:
  std::string path_;
  ConvolutionOptions options_;
  std::shared_ptr<Parameter> weight_, bias_;
};

// Batch norm (Ioffe and Szegedy, 2015) over the channels of x [N, C, spatial...]. In training it uses the mean and
// variance of the batch, and gives new running ones as updates of its buffers: (1 - momentum) old + momentum of the
// batch. Otherwise it uses the running ones.
class BatchNorm {
 public:
  BatchNorm(const Scope& scope, int64_t channels, double epsilon = 1e-5, double momentum = 0.1);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  std::string path_;
  double epsilon_, momentum_;
  std::shared_ptr<Parameter> weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
};

// The key of the random draws of one forward pass, for ForwardContext::dropout_key: i64 [2], an input of the graph.
// Passes with the same seed and step draw the same, passes with another pair draw independently.
Tensor random_key(uint64_t seed, int64_t step);

}  // namespace transom
