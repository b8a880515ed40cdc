// SPDX-License-Identifier: Apache-2.0
// A module of your own, trained with AdamW: is a point inside the unit circle?  train_a_module [PARAMETERS.safetensors]
#include <cmath>
#include <iostream>

#include "transom/transom.h"

using namespace transom;

struct Classifier {
  explicit Classifier(const Scope& scope)
      : hidden(scope / "hidden", 2, 32, {.deviation = 1}), norm(scope / "norm", 32, 1e-5), out(scope / "out", 32, 2) {}
  Tensor operator()(const Tensor& x, ForwardContext& pass) const {  // [N, 2] -> logits [N, 2]
    return out(norm(tanh(hidden(x, pass)), pass), pass);
  }
  Linear hidden;
  LayerNorm norm;
  Linear out;
};

int main(int argc, char** argv) try {
  std::vector<float> points;
  std::vector<int64_t> classes;
  for (int i = 0; i < 256; ++i) {
    const double angle = i * 2.4, radius = 0.125 * (i % 16);
    points.insert(points.end(),
                  {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))});
    classes.push_back(radius < 1);
  }
  const Tensor x = Tensor::from(points, {256, 2}), y = Tensor::from(classes, {256});

  ParameterSet parameters(/*seed=*/1);
  const Classifier classifier(parameters);
  const auto adamw = make_optimizer({.name = "adamw_torch", .weight_decay = 0.01});
  const auto learning_rate = learning_rate_schedule({.type = "cosine", .learning_rate = 0.02, .steps = 200});
  for (int64_t step = 0; step < 200; ++step) {
    const Tensor loss = minimize([&](ForwardContext& pass) { return mean_cross_entropy(classifier(x, pass), y); },
                                 parameters.all(), *adamw, {.learning_rate = learning_rate(step)});
    if (step % 50 == 0) std::cout << "step " << step << "  loss " << loss.item<float>() << '\n';
  }

  ForwardContext pass;
  const Tensor right = mean(cast(equal(arg_max(classifier(x, pass), 1), y), DType::kFloat32), {0});
  std::cout << "accuracy " << right.item<float>() << '\n';
  if (argc > 1) parameters.save(argv[1]);
  return right.item<float>() > 0.95F ? 0 : 1;
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
