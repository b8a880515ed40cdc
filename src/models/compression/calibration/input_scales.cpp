// SPDX-License-Identifier: Apache-2.0
#include "models/compression/calibration/input_scales.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "files/blocks/rounded_matrix.h"
#include "files/config/model_type.h"
#include "models/records.h"
#include "transom/config.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kTriedRows = 128;  // of each weight, evenly spread

// Rows of w times the scales, rounded, and divided again, less the rows: [n, depth].
std::vector<float> rounding_errors(const std::vector<float>& w, int64_t depth, const std::vector<float>& scales,
                                   int64_t group) {
  const int64_t rows = static_cast<int64_t>(w.size()) / depth, tried = std::min(rows, kTriedRows);
  std::vector<float> scaled(static_cast<size_t>(tried * depth)), errors(scaled.size());
  for (int64_t i = 0; i < tried; ++i)
    for (int64_t k = 0; k < depth; ++k)
      scaled[static_cast<size_t>(i * depth + k)] =
          w[static_cast<size_t>(rows * i / tried * depth + k)] * scales[static_cast<size_t>(k)];
  const auto rounded = rounded_matrix(scaled.data(), tried, depth, {.bits = 4, .group = group, .search = true});
  for (int64_t i = 0; i < tried; ++i) {
    float* row = errors.data() + i * depth;
    rounded->dequantise_row(i, row);
    for (int64_t k = 0; k < depth; ++k)
      row[k] = (row[k] - scaled[static_cast<size_t>(i * depth + k)]) / scales[static_cast<size_t>(k)];
  }
  return errors;
}

// The mean over all rows of each column's magnitude, by the largest of its group.
std::vector<float> shares_of_groups(const std::vector<const std::vector<float>*>& weights, int64_t depth,
                                    int64_t group) {
  std::vector<double> sums(static_cast<size_t>(depth));
  int64_t rows = 0;
  for (const std::vector<float>* w : weights) {
    for (auto first = w->begin(); first != w->end(); first += depth, ++rows)
      for (int64_t g = 0; g < depth; g += group) {
        const int64_t last = std::min(g + group, depth);
        float largest = 0;
        for (int64_t k = g; k < last; ++k) largest = std::max(largest, std::fabs(first[k]));
        if (!(largest > 0)) continue;
        for (int64_t k = g; k < last; ++k) sums[static_cast<size_t>(k)] += std::fabs(first[k]) / largest;
      }
  }
  std::vector<float> shares;
  for (const double sum : sums)
    shares.push_back(static_cast<float>(sum / static_cast<double>(std::max(rows, int64_t{1}))));
  return shares;
}

std::vector<float> of_mean_one(std::vector<float> scales) {
  const auto [least, most] = std::minmax_element(scales.begin(), scales.end());
  const float middle = std::sqrt(*least * *most);
  for (float& scale : scales) scale = middle > 0 && std::isfinite(middle) ? scale / middle : 1;
  return scales;
}

}  // namespace

std::vector<ScaledInputs> scaled_inputs(const Model& model) {
  const Family* family = find_family(model.config());
  if (!family || family->weights.scaled_layers->empty()) {
    std::vector<std::string> offered;
    for (const Family& each : families())
      if (!each.weights.scaled_layers->empty()) offered.push_back(each.model_type);
    fail(ErrorKind::kUnsupported,
         "--method: awq and smoothquant are for {}, found the model type {}; rtn is for all, gptq for models of texts",
         fmt::join(offered, ", "), model_type_of(model.config(), "none"));
  }
  const bool same_heads = model.config().get_int("num_attention_heads") ==
                          model.config().get_int("num_key_value_heads", model.config().get_int("num_attention_heads"));
  std::vector<ScaledInputs> all;
  for (int64_t i = 0; i < model.config().get_int("num_hidden_layers"); ++i) {
    const std::string block = fmt::format("{}.layers.{}.", family->base_prefix, i);
    for (const ScaledLayers& group : *family->weights.scaled_layers) {
      if (group.needs_equal_heads && !same_heads) continue;
      ScaledInputs inputs{.maker = block + group.maker, .maker_is_linear = group.maker_is_linear};
      for (const std::string& layer : group.layers) inputs.layers.push_back(block + layer);
      all.push_back(std::move(inputs));
    }
  }
  return all;
}

std::vector<float> awq_scales(const LayerInputs& inputs, const std::vector<const std::vector<float>*>& weights,
                              int64_t group) {
  const auto depth = static_cast<int64_t>(inputs.magnitudes.size());
  const Tensor products = Tensor::from(inputs.products, {depth, depth});
  const std::vector<float> shares = shares_of_groups(weights, depth, group);
  std::vector<float> best;
  double least = std::numeric_limits<double>::infinity();
  for (int step = 0; step < 20; ++step) {
    const float exponent = 0.05f * static_cast<float>(step);
    for (const float of_share : {0.0f, 1 - exponent}) {
      std::vector<float> scales;
      for (size_t k = 0; k < shares.size(); ++k)
        scales.push_back(
            std::max(std::pow(inputs.magnitudes[k], exponent) / (std::pow(shares[k], of_share) + 1e-4f), 1e-4f));
      scales = of_mean_one(std::move(scales));
      double error = 0;
      for (const std::vector<float>* w : weights)
        error += output_squares(rounding_errors(*w, depth, scales, group), products);
      if (error < least || best.empty()) least = error, best = std::move(scales);
    }
  }
  return best;
}

std::vector<float> smooth_scales(const LayerInputs& inputs, const std::vector<const std::vector<float>*>& weights) {
  const size_t depth = inputs.largest.size();
  std::vector<float> scales(depth);
  for (const std::vector<float>* w : weights)
    for (size_t i = 0; i < w->size(); ++i) scales[i % depth] = std::max(scales[i % depth], std::fabs((*w)[i]));
  for (size_t k = 0; k < depth; ++k) {
    const float ratio = std::sqrt(inputs.largest[k] / std::max(scales[k], 1e-5f));
    scales[k] = std::isfinite(ratio) ? std::max(ratio, 1e-5f) : 1;
  }
  return scales;
}

}  // namespace transom
