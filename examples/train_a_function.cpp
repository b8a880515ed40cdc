// SPDX-License-Identifier: Apache-2.0
// The layers below: tensors, gradients and a compiled training step. Learns the exclusive or of two bits.
#include <cmath>
#include <iostream>

#include "transom/transom.h"

using namespace transom;

// (w1 [2, 8], b1 [8], w2 [8, 1]) on x [4, 2] -> [4, 1]
static Tensor network(const Tensor& x, const std::vector<Tensor>& w) {
  return matmul(tanh(matmul(x, w[0]) + w[1]), w[2]);
}

int main() {
  const Tensor x = Tensor::from<float>({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const Tensor target = Tensor::from<float>({0, 1, 1, 0}, {4, 1});

  std::vector<float> first(16), last(8);
  for (size_t i = 0; i < 16; ++i) first[i] = std::sin(static_cast<float>(i) * 1.7F);
  for (size_t i = 0; i < 8; ++i) last[i] = std::cos(static_cast<float>(i) * 2.3F);
  std::vector<Tensor> weights{Tensor::from(first, {2, 8}), zeros({8}), Tensor::from(last, {8, 1})};

  // One program a step: forward, backward and the update, which takes over the memory of the old weights.
  const CompiledFunction step = compile(
      [&](const std::vector<Tensor>& arguments) {
        std::vector<Tensor> w(arguments);
        for (Tensor& tensor : w) tensor.set_requires_grad();
        const Tensor error = network(x, w) - target;
        const Tensor loss = mean(error * error, {0, 1});
        std::vector<Tensor> results = gradients(loss, w);
        for (size_t i = 0; i < w.size(); ++i) results[i] = w[i] - results[i] * 0.3;
        results.push_back(loss);
        return results;
      },
      {.name = "xor step", .capture = false, .donated = {0, 1, 2}});

  float loss = 0;
  for (int i = 0; i < 1000; ++i) {
    weights = step(std::move(weights));
    loss = weights.back().item<float>();
    weights.pop_back();
    if (i % 250 == 0) std::cout << "step " << i << "  loss " << loss << '\n';
  }
  const std::vector<float> answers = network(x, weights).to_vector<float>();
  for (const float answer : answers) std::cout << std::round(answer * 100) / 100 << ' ';
  std::cout << '\n';
  return loss < 0.01F ? 0 : 1;
}
