// SPDX-License-Identifier: Apache-2.0
#include "models/compression/prune.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/threads/threads.h"
#include "models/compression/calibration/calibration.h"
#include "models/compression/gptq/linear_rows.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/weights/missing_weights.h"
#include "models/loading/weights/packed_weights.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Of each `among` weights `kept` are kept; 0 among: by the sparsity of the options, of blocks where they have a size.
struct Pattern {
  int64_t kept = 0, among = 0;
  int64_t outputs = 0, inputs = 0;  // of a block
};

std::optional<Pattern> parse_blocks(const std::string& text) {
  Pattern pattern;
  const char *begin = text.data(), *end = begin + text.size();
  const auto first = std::from_chars(begin, end, pattern.outputs);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != 'x') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, pattern.inputs);
  const auto fits = [](int64_t extent) { return extent >= 1 && extent <= 256; };
  if (second.ec != std::errc() || second.ptr != end || !fits(pattern.outputs) || !fits(pattern.inputs))
    return std::nullopt;
  return pattern;
}

Pattern parse_pattern(const std::string& text) {
  if (text.empty()) return {};
  if (const auto blocks = parse_blocks(text)) return *blocks;
  Pattern pattern;
  const char *begin = text.data(), *end = begin + text.size();
  const auto first = std::from_chars(begin, end, pattern.kept);
  if (first.ec == std::errc() && first.ptr < end && *first.ptr == ':') {
    const auto second = std::from_chars(first.ptr + 1, end, pattern.among);
    if (second.ec == std::errc() && second.ptr == end && pattern.kept >= 1 && pattern.kept < pattern.among &&
        pattern.among <= 256)
      return pattern;
  }
  fail(
      ErrorKind::kUsage,
      "--pattern: expected N:M as 2:4, N of each M weights are kept, or RxC as 16x16, blocks of R outputs by C inputs; "
      "M, R and C up to 256; found {}",
      quoted(text));
}

void check_prune_options(const PruneOptions& options) {
  if (options.method != "magnitude" && options.method != "wanda")
    fail(ErrorKind::kUsage, "--method: expected magnitude or wanda, found {}", quoted(options.method));
  if (!(options.sparsity > 0 && options.sparsity < 1))
    fail(ErrorKind::kUsage, "--sparsity: expected a part above 0 and below 1, found {}", options.sparsity);
  if (options.method == "wanda" && options.texts.calibration_file.empty())
    fail(ErrorKind::kUsage, "--calibration_file: wanda needs a text");
  if (options.texts.samples < 1 || options.texts.length < 2 || !(options.texts.max_memory > 0))
    fail(ErrorKind::kUsage, "--calibration_samples, --calibration_length, --max_memory: found {}, {}, {}",
         options.texts.samples, options.texts.length, options.texts.max_memory);
}

// Zeroes the `count` weights of the least importance; of equal ones the first.
void zero_least(float* weights, const float* importance, int64_t size, int64_t count) {
  if (count <= 0) return;
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::nth_element(order.begin(), order.begin() + (count - 1), order.end(), [&](int64_t a, int64_t b) {
    return importance[a] != importance[b] ? importance[a] < importance[b] : a < b;
  });
  for (int64_t i = 0; i < count; ++i) weights[order[static_cast<size_t>(i)]] = 0;
}

class Pruner {
 public:
  Pruner(const PruneOptions& options, int64_t total)
      : options_(options), pattern_(parse_pattern(options.pattern)), total_(total) {}

  // `norms`: of each input, or empty where magnitudes alone count.
  void prune(Parameter& weight, const std::vector<float>& norms) {
    LinearRows matrix = rows_by_output(weight);
    const int64_t rows = matrix.rows, depth = matrix.depth;
    std::vector<float>& w = matrix.numbers;
    std::vector<float> importance(w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      if (!std::isfinite(w[i])) fail("{}: expected finite weights to prune, found {}", weight.name, w[i]);
      importance[i] = std::fabs(w[i]) * (norms.empty() ? 1.0f : norms[i % static_cast<size_t>(depth)]);
      if (!std::isfinite(importance[i]))
        fail("{}: what it reads of the calibration texts is not finite; use other texts or --method magnitude",
             weight.name);
    }
    const std::vector<float> before = w;
    if (pattern_.outputs > 0) zero_blocks(w, importance, rows, depth);
    else if (pattern_.among > 0 || !norms.empty())
      parallel_for(static_cast<size_t>(rows), [&](size_t row) {
        const int64_t part = pattern_.among > 0 ? pattern_.among : depth;
        for (int64_t k = 0; k < depth; k += part) {
          const int64_t first = static_cast<int64_t>(row) * depth + k, size = std::min(part, depth - k);
          // What is left of a row that is no whole number of parts loses its share, rounded down.
          const int64_t cut =
              pattern_.among > 0 ? (pattern_.among - pattern_.kept) * size / pattern_.among : cut_of(size);
          zero_least(w.data() + first, importance.data() + first, size, cut);
        }
      });
    else zero_least(w.data(), importance.data(), rows * depth, cut_of(rows * depth));

    PruneReport::Layer layer{.name = weight.name.substr(0, weight.name.rfind('.'))};
    double lost = 0, all = 0;
    int64_t zeros = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      const double scale = norms.empty() ? 1 : norms[i % static_cast<size_t>(depth)];
      const double was = scale * static_cast<double>(before[i]), rest = was - scale * static_cast<double>(w[i]);
      lost += rest * rest, all += was * was, zeros += w[i] == 0;
    }
    layer.error = all > 0 ? std::sqrt(lost / all) : 0;
    layer.sparsity = w.empty() ? 0 : static_cast<double>(zeros) / static_cast<double>(w.size());
    report.layers.push_back(layer);
    report.weights += rows * depth, report.zeros += zeros;
    set_rows_by_output(weight, matrix);
    if (options_.on_layer) options_.on_layer(static_cast<int64_t>(report.layers.size()), total_, layer.name);
  }

  PruneReport report;

 private:
  // Blocks count by the mean square of their weights' importance, so that those at the edges count as others do.
  void zero_blocks(std::vector<float>& w, const std::vector<float>& importance, int64_t rows, int64_t depth) const {
    const int64_t down = (rows + pattern_.outputs - 1) / pattern_.outputs,
                  across = (depth + pattern_.inputs - 1) / pattern_.inputs;
    std::vector<float> means(static_cast<size_t>(down * across)), kept(means.size(), 1);
    const auto each = [&](int64_t block, auto&& body) {
      const int64_t row = block / across * pattern_.outputs, column = block % across * pattern_.inputs;
      for (int64_t r = row; r < std::min(rows, row + pattern_.outputs); ++r)
        for (int64_t c = column; c < std::min(depth, column + pattern_.inputs); ++c)
          body(static_cast<size_t>(r * depth + c));
    };
    parallel_for(means.size(), [&](size_t block) {
      double sum = 0, count = 0;
      each(static_cast<int64_t>(block), [&](size_t i) { sum += double{importance[i]} * importance[i], ++count; });
      means[block] = static_cast<float>(sum / count);
    });
    zero_least(kept.data(), means.data(), down * across, cut_of(down * across));
    for (size_t block = 0; block < kept.size(); ++block)
      if (kept[block] == 0) each(static_cast<int64_t>(block), [&](size_t i) { w[i] = 0; });
  }

  int64_t cut_of(int64_t size) const { return static_cast<int64_t>(options_.sparsity * static_cast<double>(size)); }

  const PruneOptions& options_;
  Pattern pattern_;
  int64_t total_;
};

std::optional<double> loss_of(const Model& model, const CalibrationTexts& texts) {
  const std::optional<double> perplexity = judged_perplexity(model, texts);
  return perplexity ? std::optional(std::log(*perplexity)) : std::nullopt;
}

}  // namespace

PruneReport prune_model(const Model& model, const CalibrationTexts& texts, const PruneOptions& options) {
  check_prune_options(options);
  parse_pattern(options.pattern);
  std::vector<std::shared_ptr<Parameter>> weights;
  for (const auto& parameter : model.parameters())
    if (is_linear_matrix(*parameter) && is_in_block(parameter->name)) weights.push_back(parameter);
  if (weights.empty()) fail("{}: has no linear layers that can be pruned", model.architecture());
  const std::optional<double> before = loss_of(model, texts);
  Pruner pruner(options, static_cast<int64_t>(weights.size()));
  if (options.method == "wanda") {
    if (texts.calibration.empty()) fail("wanda needs rows of a text to see what layers read, found none");
    calibrate(model, texts.calibration, weights, [&](const LayerInputs& inputs, Parameter& weight) {
      const size_t depth = inputs.magnitudes.size();
      std::vector<float> norms(depth);
      for (size_t i = 0; i < depth; ++i) norms[i] = std::sqrt(inputs.products[i * depth + i]);
      pruner.prune(weight, norms);
    });
  } else {
    for (const auto& weight : weights) pruner.prune(*weight, {});
  }
  PruneReport report = std::move(pruner.report);
  if (report.layers.size() != weights.size())
    fail("{}: expected all {} linear layers in a pass over the text, found {}", model.architecture(), weights.size(),
         report.layers.size());
  report.calibration_rows = options.method == "wanda" ? static_cast<int64_t>(texts.calibration.size()) : 0;
  report.loss_before = before;
  if (before) report.loss_after = loss_of(model, texts);
  return report;
}

PruneReport prune_checkpoint(const std::string& source, const std::string& output, const PruneOptions& options) {
  check_prune_options(options);
  const auto model = load_trained(source, {.dtype = "auto", .quantization = "decompressed"});
  expect_merged(*model);
  PruneReport report = prune_model(*model, read_calibration_texts(*model, source, options.texts), options);
  model->save_pretrained(output);
  return report;
}

}  // namespace transom
