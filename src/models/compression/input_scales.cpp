// SPDX-License-Identifier: Apache-2.0
#include "models/compression/input_scales.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/numbers/half.h"
#include "base/threads/threads.h"
#include "io/blocks/rounded_matrix.h"
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

std::vector<float> of_mean_one(std::vector<float> scales) {
  const auto [least, most] = std::minmax_element(scales.begin(), scales.end());
  const float middle = std::sqrt(*least * *most);
  for (float& scale : scales) scale = middle > 0 && std::isfinite(middle) ? scale / middle : 1;
  return scales;
}

}  // namespace

std::vector<ScaledInputs> scaled_inputs(const Model& model) {
  const std::string type = model.config().get_string("model_type", "");
  if (type != "llama" && type != "mistral" && type != "qwen2" && type != "qwen3")
    fail(ErrorKind::kUnsupported,
         "--method: awq and smoothquant are for llama, mistral, qwen2 and qwen3, found the model type {}; rtn is for "
         "all, gptq for models of texts",
         type.empty() ? "none" : type);
  const bool same_heads = model.config().get_int("num_attention_heads") ==
                          model.config().get_int("num_key_value_heads", model.config().get_int("num_attention_heads"));
  std::vector<ScaledInputs> all;
  for (int64_t i = 0; i < model.config().get_int("num_hidden_layers"); ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i), attention = layer + "self_attn.",
                      mlp = layer + "mlp.";
    all.push_back({{attention + "q_proj", attention + "k_proj", attention + "v_proj"}, layer + "input_layernorm"});
    if (same_heads) all.push_back({{attention + "o_proj"}, attention + "v_proj", true});
    all.push_back({{mlp + "gate_proj", mlp + "up_proj"}, layer + "post_attention_layernorm"});
    all.push_back({{mlp + "down_proj"}, mlp + "up_proj", true});
  }
  return all;
}

std::vector<float> awq_scales(const LayerInputs& inputs, const std::vector<const std::vector<float>*>& weights,
                              int64_t group) {
  const auto depth = static_cast<int64_t>(inputs.magnitudes.size());
  const Tensor products = Tensor::from(inputs.products, {depth, depth});
  std::vector<float> best;
  double least = std::numeric_limits<double>::infinity();
  for (int step = 0; step < 20; ++step) {
    std::vector<float> scales;
    for (const float magnitude : inputs.magnitudes)
      scales.push_back(std::max(std::pow(magnitude, 0.05f * static_cast<float>(step)), 1e-4f));
    scales = of_mean_one(std::move(scales));
    double error = 0;
    for (const std::vector<float>* w : weights)
      error += output_squares(rounding_errors(*w, depth, scales, group), products);
    if (error < least || best.empty()) least = error, best = std::move(scales);
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

std::shared_ptr<CodedMatrix> clipped_matrix(const std::vector<float>& w, int64_t rows, int64_t depth, int64_t group,
                                            const std::vector<float>& products) {
  auto made = std::make_shared<CodedMatrix>(BlockLayout{
      .rows = rows, .depth = depth, .bits = 4, .group = group > 0 ? group : depth, .scale_type = DType::kFloat16});
  const int64_t size = made->layout().group, groups = made->layout().groups();
  parallel_for(static_cast<size_t>(rows), [&](size_t row) {
    std::vector<float> rest(static_cast<size_t>(size));
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = g * size, count = std::min(size, depth - first);
      const float* x = w.data() + static_cast<int64_t>(row) * depth + first;
      float largest = 0;
      for (int64_t k = 0; k < count; ++k) largest = std::max(largest, std::fabs(x[k]));
      float best = Float16(largest / 8);
      double least = std::numeric_limits<double>::infinity();
      for (int step = 0; step < 14; ++step) {
        const float scale = Float16(largest / 8 * (0.55f + 0.05f * static_cast<float>(step)));
        if (!(scale > 0)) continue;
        for (int64_t k = 0; k < count; ++k)
          rest[static_cast<size_t>(k)] = x[k] - scale * std::clamp(std::nearbyint(x[k] / scale), -8.0f, 7.0f);
        double error = 0;
        for (int64_t i = 0; i < count; ++i) {
          const float* own = products.data() + (first + i) * depth + first;
          float sum = 0;
          for (int64_t j = 0; j < count; ++j) sum += own[j] * rest[static_cast<size_t>(j)];
          error += static_cast<double>(sum) * rest[static_cast<size_t>(i)];
        }
        if (error < least) least = error, best = scale;
      }
      made->scales[row * static_cast<size_t>(groups) + static_cast<size_t>(g)] = best;
      for (int64_t k = 0; k < count; ++k) {
        const float code = best > 0 ? std::clamp(std::nearbyint(x[k] / best), -8.0f, 7.0f) : 0;
        made->codes[row * static_cast<size_t>(depth) + static_cast<size_t>(first + k)] = static_cast<uint8_t>(code + 8);
      }
    }
  });
  return made;
}

}  // namespace transom
