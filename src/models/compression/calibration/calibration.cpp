// SPDX-License-Identifier: Apache-2.0
#include "models/compression/calibration/calibration.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/files/files.h"
#include "models/nn/linear_observer.h"
#include "models/records.h"
#include "models/shared/encoder_decoder.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/config.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Thrown where all layers have been seen: the rest of the pass is not needed.
struct PassIsDone {};

class Calibration : public LinearObserver {
 public:
  Calibration(const std::vector<std::shared_ptr<Parameter>>& weights,
              const std::function<void(const LayerInputs&, Parameter&)>& on_layer)
      : on_layer_(on_layer) {
    for (const auto& weight : weights) waiting_.emplace(weight.get(), weight);
  }

  void before(const Tensor& x, const Parameter& weight, const Computing& computing) override {
    const auto found = waiting_.find(&weight);
    if (found == waiting_.end()) {
      if (waiting_.empty()) throw PassIsDone();
      return;
    }
    if (!inputs_.x.defined() || inputs_.x.node() != x.node()) see(x, computing);  // q, k and v read the same
    const std::shared_ptr<Parameter> parameter = found->second;
    waiting_.erase(found);
    on_layer_(inputs_, *parameter);
  }

 private:
  void see(const Tensor& x, const Computing& computing) {
    const int64_t depth = x.shape().back(), tokens = x.size() / std::max<int64_t>(depth, 1);
    const Tensor flat = cast(reshape(x, {tokens, depth}), DType::kFloat32);
    inputs_ = {x, {}, {}, {}};
    inputs_.products = (dot_general(flat, flat, {{}, {}, {0}, {0}}, computing) * (1.0 / static_cast<double>(tokens)))
                           .to_vector<float>();
    const Tensor sizes = abs(flat);
    inputs_.magnitudes = (reduce_sum(sizes, {0}) * (1.0 / static_cast<double>(tokens))).to_vector<float>();
    inputs_.largest = reduce_max(sizes, {0}).to_vector<float>();
  }

  std::map<const Parameter*, std::shared_ptr<Parameter>> waiting_;
  const std::function<void(const LayerInputs&, Parameter&)>& on_layer_;
  LayerInputs inputs_;
};

// Where an encoder stands before the decoder, it writes the rows that the encoder reads.
NamedTensors tensors_of(const Model& model, const std::vector<std::vector<int64_t>>& rows) {
  const Tensor ids = input_ids_of(rows);
  if (*head_of(model).task == HeadTask::kMultipleChoice)  // each row is the one choice
    return {{"input_ids", reshape(ids, {ids.dim(0), 1, ids.dim(1)})}};
  NamedTensors inputs{{"input_ids", ids}};
  const FamilyInputs& taken = inputs_of(model);
  if (std::none_of(taken.begin(), taken.end(),
                   [](const FamilyInput& input) { return input.kind == FamilyInput::Kind::kDecoderTokens; }))
    return inputs;
  const int64_t padding = model.config().get_int("pad_token_id", 0);
  inputs.set("decoder_input_ids",
             shifted_right(ids, model.config().get_int("decoder_start_token_id", padding), padding));
  return inputs;
}

}  // namespace

std::vector<std::vector<int64_t>> token_rows(const Tokenizer& tokenizer, const std::string& file, int64_t count,
                                             int64_t length) {
  const std::string text = read_file(file);
  const std::vector<int64_t> ids = tokenizer.encode(text, std::nullopt, {.add_special_tokens = false}).ids;
  const int64_t rows = static_cast<int64_t>(ids.size()) / length, taken = std::min(rows, count);
  if (taken < 1) fail("{}: expected a text of at least {} tokens, found {}", file, length, ids.size());
  std::vector<std::vector<int64_t>> result;
  for (int64_t i = 0; i < taken; ++i) {
    const auto begin = ids.begin() + rows * i / taken * length;
    result.emplace_back(begin, begin + length);
  }
  return result;
}

void expect_model_of_texts(const Model& model) {
  for (const FamilyInput& input : inputs_of(model))
    if (input.needed && input.kind != FamilyInput::Kind::kTokens && input.kind != FamilyInput::Kind::kDecoderTokens)
      fail(ErrorKind::kUnsupported,
           "--calibration_file, --validation_file: texts are passed through models of texts, and {} reads {}; expected "
           "--method rtn without a file or static to quantise, magnitude to prune",
           model.architecture(), input.name);
}

Tensor input_ids_of(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<int64_t> ids;
  for (const std::vector<int64_t>& row : rows) ids.insert(ids.end(), row.begin(), row.end());
  const auto count = static_cast<int64_t>(rows.size());
  return Tensor::from(ids, {count, static_cast<int64_t>(ids.size()) / count});
}

double perplexity(const Model& model, const std::vector<std::vector<int64_t>>& rows) {
  const NoGradient inference;
  double loss = 0;
  for (const std::vector<int64_t>& row : rows) {
    const Tensor ids = input_ids_of({row});
    loss += static_cast<double>(model.forward({{"input_ids", ids}, {"labels", ids}}).at("loss").item<float>());
  }
  return std::exp(loss / static_cast<double>(rows.size()));
}

double output_squares(const std::vector<float>& rows, const Tensor& products) {
  const int64_t depth = products.dim(0);
  const Tensor w = Tensor::from(rows, {static_cast<int64_t>(rows.size()) / depth, depth});
  return static_cast<double>(
      reduce_sum(dot_general(w, products, {{}, {}, {1}, {0}}, kAsGiven) * w, {0, 1}).item<float>());
}

void calibrate(const Model& model, const std::vector<std::vector<int64_t>>& rows,
               const std::vector<std::shared_ptr<Parameter>>& weights,
               const std::function<void(const LayerInputs&, Parameter&)>& on_layer) {
  const NoGradient inference;
  const ModeScope eager(Mode::kEager);  // each layer's inputs are there when it is called
  Calibration calibration(weights, on_layer);
  try {
    model.forward(tensors_of(model, rows), {.computing = {.observer = &calibration}});
  } catch (const PassIsDone&) {
  }
}

}  // namespace transom
