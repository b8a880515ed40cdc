// SPDX-License-Identifier: Apache-2.0
// The negative log likelihood of log-probabilities [C, N] with labels [N], and its gradient.
#include "elementwise.h"

namespace synapse_emulator {
namespace {

enum Mode { kMean = 0, kSum = 1, kNone = 2 };

NegativeLogLikelihoodParams loss_params(const Node& node) {
  auto params = params_of<NegativeLogLikelihoodParams>(node, {4, 8});
  if (node.params.size() < sizeof params) params.ignoreIndexValue = -100;
  require(params.mode >= kMean && params.mode <= kNone, node, "mode ", params.mode);
  return params;
}

void check_matrix(const Node& node, const Operand& matrix, const Operand& labels) {
  require_type(node, matrix, node.type, "the log-probabilities or their gradient");
  require_type(node, labels, syn_type_int32, "the labels");
  require(matrix.sizes.rank == 2 && labels.sizes.rank == 1 && matrix.sizes[1] == labels.sizes[0], node,
          "log-probabilities ", text_of(matrix.sizes), " for labels ", text_of(labels.sizes));
}
void check_loss(const Node& node, const Operand& loss, const Operand& labels) {
  require_type(node, loss, node.type, "the loss or its gradient");
  Sizes expected;
  expected.rank = 1;
  expected.size[0] = loss_params(node).mode == kNone ? labels.sizes[0] : 1;
  require_sizes(node, loss, expected, "the loss or its gradient");
}

int64_t label_of(const Node& node, const Operand& labels, int64_t row, int64_t classes) {
  const int64_t label = labels.as<int32_t>()[row];
  if (label < 0 || label >= classes)
    throw Violation{synFail, "index-range", join(node.guid, ": label ", label, " of ", classes)};
  return label;
}
int64_t counted(const Operand& labels, int32_t ignored) {
  int64_t count = 0;
  for (int64_t i = 0; i < labels.elements(); ++i) count += labels.as<int32_t>()[i] != ignored;
  return count;
}

void check_forward(const Node& node) {
  require_counts(node, 2, 2, 1, 1);
  check_matrix(node, node.input(0), node.input(1));
  check_loss(node, node.output(0), node.input(1));
}
void run_forward(const Node& node) {
  const auto params = loss_params(node);
  const Operand &x = node.input(0), &labels = node.input(1);
  const int64_t classes = x.sizes[0];
  float total = 0;
  for (int64_t i = 0; i < labels.elements(); ++i) {
    float loss = 0;
    if (labels.as<int32_t>()[i] != params.ignoreIndexValue) {
      load<float>(x.type, x.data, i * classes + label_of(node, labels, i, classes), 1, 1, &loss);
      loss = -loss;
    }
    if (params.mode == kNone) store<float>(node.type, node.output(0).data, i, 1, 1, &loss);
    total += loss;
  }
  if (params.mode == kMean) total /= static_cast<float>(counted(labels, params.ignoreIndexValue));
  if (params.mode != kNone) store<float>(node.type, node.output(0).data, 0, 1, 1, &total);
}

// {dloss, labels} -> dx
void check_backward(const Node& node) {
  require_counts(node, 2, 2, 1, 1);
  check_matrix(node, node.output(0), node.input(1));
  check_loss(node, node.input(0), node.input(1));
}
void run_backward(const Node& node) {
  const auto params = loss_params(node);
  const Operand &labels = node.input(1), &dx = node.output(0);
  const int64_t classes = dx.sizes[0];
  std::memset(dx.data, 0, static_cast<size_t>(dx.bytes()));
  const float scale = params.mode == kMean ? 1 / static_cast<float>(counted(labels, params.ignoreIndexValue)) : 1.0f;
  for (int64_t i = 0; i < labels.elements(); ++i) {
    if (labels.as<int32_t>()[i] == params.ignoreIndexValue) continue;
    float gradient;
    load<float>(node.type, node.input(0).data, params.mode == kNone ? i : 0, 1, 1, &gradient);
    gradient *= -scale;
    store<float>(node.type, dx.data, i * classes + label_of(node, labels, i, classes), 1, 1, &gradient);
  }
}

}  // namespace

void add_losses(KernelTable& table) {
  table.add({"nll_loss_fwd", Engine::kTpc, kFloats, check_forward, run_forward, nullptr, false});
  table.add({"nll_loss_bwd", Engine::kTpc, kFloats, check_backward, run_backward, nullptr, false});
}

}  // namespace synapse_emulator
