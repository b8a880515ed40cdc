// SPDX-License-Identifier: Apache-2.0
#include "models/compression/static_quantization.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/blocks/quantized_writer.h"
#include "files/checkpoint/checkpoint.h"
#include "graph/ops/products/integer_products.h"
#include "models/compression/calibration/input_range.h"
#include "models/compression/checkpoint_parts.h"
#include "models/compression/vocabulary_heads.h"
#include "models/loading/weights/missing_weights.h"
#include "models/loading/weights/packed_weights.h"
#include "models/nn/linear_observer.h"
#include "models/unfinite_numbers.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr std::string_view kWeightEnding = ".weight";

// A layer whose products can be those of integers, and what it has read.
struct StaticLayer {
  bool convolution;
  InputRange range;
  PackedMatrix matrix = {};  // once the codes are made
  double error_squares = 0, output_squares = 0;
};
using StaticLayers = std::map<const Parameter*, StaticLayer>;

std::string module_name(const Parameter& weight) {
  return weight.name.substr(0, weight.name.size() - kWeightEnding.size());
}

bool is_static_linear(const Parameter& weight) {
  return weight.use == Parameter::Use::kLinear && weight.value.rank() == 2 && weight.name.ends_with(kWeightEnding) &&
         weight.value.dim(1) > 0 && weight.value.dim(1) <= int64_t{1} << 16;
}

// Collects the ranges of what layers read.
class RangeObserver : public LinearObserver {
 public:
  explicit RangeObserver(StaticLayers& layers) : layers_(layers) {}
  void before(const Tensor& x, const Parameter& weight, const Computing&) override {
    if (is_static_linear(weight)) add(x, weight, false);
  }
  void before_convolution(const Tensor& x, const Parameter& weight, const ConvolutionOptions&,
                          const Computing&) override {
    if (x.rank() == 4 && weight.name.ends_with(kWeightEnding) && quantizes_convolution(weight.value))
      add(x, weight, true);
  }

 private:
  void add(const Tensor& x, const Parameter& weight, bool convolution) {
    const auto found = layers_.try_emplace(&weight, StaticLayer{convolution, {}}).first;
    found->second.range.add(cast(x, DType::kFloat32).to_vector<float>());
  }
  StaticLayers& layers_;
};

// Compares what layers give in integers with what they give as they are.
class ErrorObserver : public LinearObserver {
 public:
  explicit ErrorObserver(StaticLayers& layers) : layers_(layers) {}
  void before(const Tensor& x, const Parameter& weight, const Computing& computing) override {
    if (const auto found = layers_.find(&weight); found != layers_.end())
      compare(transom::linear(x, weight.value, {}, computing), quantized_linear(x, *found->second.matrix.integers, {}),
              found->second);
  }
  void before_convolution(const Tensor& x, const Parameter& weight, const ConvolutionOptions& options,
                          const Computing& computing) override {
    if (const auto found = layers_.find(&weight); found != layers_.end())
      compare(transom::convolution(x, weight.value, options, computing),
              quantized_convolution(x, *found->second.matrix.integers, options), found->second);
  }

 private:
  static void compare(const Tensor& exact, const Tensor& rounded, StaticLayer& layer) {
    const auto numbers = cast(exact, DType::kFloat32).to_vector<float>(),
               others = cast(rounded, DType::kFloat32).to_vector<float>();
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double rest = static_cast<double>(others[i]) - numbers[i];
      layer.error_squares += rest * rest;
      layer.output_squares += static_cast<double>(numbers[i]) * numbers[i];
    }
  }
  StaticLayers& layers_;
};

// A scale for each output: its largest magnitude / 127.
IntegerCodes codes_of(const Tensor& weight, const InputRange::Steps& steps, const std::string& where) {
  const auto numbers = weight.to_vector<float>();
  const size_t rows = static_cast<size_t>(weight.dim(0)), depth = numbers.size() / std::max<size_t>(rows, 1);
  const auto codes = std::make_shared<std::vector<int8_t>>(numbers.size());
  IntegerCodes made{.codes = {DType::kInt8, weight.shape(), std::as_bytes(std::span(*codes)), codes},
                    .scales = std::vector<float>(rows),
                    .input_scale = steps.scale,
                    .input_zero_point = steps.zero_point};
  for (size_t r = 0; r < rows; ++r) {
    const float* row = numbers.data() + r * depth;
    float largest = 0;
    for (size_t k = 0; k < depth; ++k) {
      if (!std::isfinite(row[k])) fail("{}: output {} has a weight that is not finite", where, r);
      largest = std::max(largest, std::fabs(row[k]));
    }
    const float scale = made.scales[r] = largest / 127;
    for (size_t k = 0; k < depth; ++k)
      (*codes)[r * depth + k] = static_cast<int8_t>(scale > 0 ? std::nearbyint(row[k] / scale) : 0);
  }
  return made;
}

// The first output of each batch, [rows, ...].
std::vector<Tensor> outputs_on(const Model& model, std::span<const NamedTensors> batches) {
  std::vector<Tensor> outputs;
  for (const NamedTensors& batch : batches) {
    const NamedTensors made = model.forward(batch);
    const Tensor logits = made.find("logits");
    outputs.push_back(cast(logits.defined() ? logits : made.items().at(0).second, DType::kFloat32));
    eval({outputs.back()});
  }
  return outputs;
}

void judge(const std::vector<Tensor>& before, const std::vector<Tensor>& after, QuantizeReport& report) {
  double signal = 0, noise = 0;
  int64_t rows = 0, same = 0;
  bool classes = true;
  for (size_t i = 0; i < before.size(); ++i) {
    const auto x = before[i].to_vector<float>(), y = after[i].to_vector<float>();
    for (size_t j = 0; j < x.size(); ++j) {
      const double rest = static_cast<double>(y[j]) - x[j];
      signal += static_cast<double>(x[j]) * x[j], noise += rest * rest;
    }
    const int64_t count = before[i].rank() > 0 ? before[i].dim(0) : 0;
    rows += count;
    classes = classes && before[i].rank() == 2 && before[i].dim(1) > 1;
    for (int64_t r = 0; classes && r < count; ++r) {
      const auto first = [&](const std::vector<float>& values) {
        const auto begin = values.begin() + r * before[i].dim(1);
        return std::max_element(begin, begin + before[i].dim(1)) - begin;
      };
      same += first(x) == first(y);
    }
  }
  report.judged_rows = rows;
  if (signal > 0) report.signal_to_noise = 10 * std::log10(signal / std::max(noise, signal * 1e-15));
  if (classes && rows > 0) report.same_first = static_cast<double>(same) / static_cast<double>(rows);
}

int64_t rows_in(std::span<const NamedTensors> batches) {
  int64_t rows = 0;
  for (const NamedTensors& batch : batches)
    if (!batch.empty()) rows += batch.items()[0].second.dim(0);
  return rows;
}

}  // namespace

QuantizeReport quantize_statically(const std::string& source, const std::string& output,
                                   const QuantizeOptions& options) {
  const auto model = load_trained(source, {.dtype = "auto", .quantization = "decompressed"});
  const NoGradient inference;
  // A quarter is kept apart to judge by, where there are enough; else all do both.
  const std::span all(options.inputs);
  const size_t apart = all.size() >= 4 ? all.size() / 4 : 0;
  const auto calibration = all.first(all.size() - apart), judged = apart > 0 ? all.last(apart) : all;
  std::vector<std::shared_ptr<Parameter>> parameters = model->parameters();
  parameters.insert(parameters.end(), model->buffers().begin(), model->buffers().end());

  StaticLayers layers;
  int64_t done = 0;
  const auto total = static_cast<int64_t>(calibration.size());
  {
    const ModeScope eager(Mode::kEager);  // each layer's inputs are there when it is called
    RangeObserver observer(layers);
    for (const NamedTensors& batch : calibration) {
      model->forward(batch, {.computing = {.observer = &observer}});
      if (options.on_layer) options.on_layer(++done, total, "calibration");
    }
  }
  // Others read such linear layers, but no such convolutions: the few of a model of linear layers (patches) stay.
  const auto convolving =
      std::count_if(layers.begin(), layers.end(), [](const auto& l) { return l.second.convolution; });
  if (2 * static_cast<size_t>(convolving) < layers.size())
    std::erase_if(layers, [](const auto& layer) { return layer.second.convolution; });
  if (layers.empty()) fail("{}: reads its inputs through no linear layer or convolution that has 8 bits", source);
  const std::vector<Tensor> before = outputs_on(*model, judged);

  QuantizeReport report;
  report.calibration_rows = rows_in(calibration);
  NamedViews tensors;
  std::vector<std::string> ignored;
  bool convolutions = false;
  SharedInputScales scales;
  for (const auto& parameter : parameters) {
    const TensorView exact = bytes_of_tensor(parameter->value);
    report.bytes_before += static_cast<int64_t>(exact.bytes.size());
    const auto found = layers.find(parameter.get());
    if (found == layers.end()) {
      expect_finite(exact, fmt::format("{}: tensor {}", source, parameter->name));
      // What a reader could take for a layer of the classes that are quantised.
      const bool is_layer = parameter->name.ends_with(kWeightEnding) &&
                            (parameter->use == Parameter::Use::kLinear || parameter->value.rank() == 4);
      if (is_layer) ignored.push_back(module_name(*parameter)), report.kept.push_back(ignored.back());
      tensors.emplace_back(parameter->name, exact);
      continue;
    }
    const InputRange::Steps steps = found->second.range.steps(found->second.convolution);
    const IntegerCodes codes =
        codes_of(cast(parameter->value, DType::kFloat32), steps, fmt::format("{}: {}", source, parameter->name));
    write_integers(codes, module_name(*parameter), tensors);
    found->second.matrix = integer_matrix(codes, scales);
    convolutions = convolutions || found->second.convolution;
  }
  for (const auto& [name, view] : tensors) report.bytes_after += static_cast<int64_t>(view.bytes.size());
  {
    const ModeScope eager(Mode::kEager);
    ErrorObserver observer(layers);
    model->forward(judged[0], {.computing = {.observer = &observer}});
  }
  for (const auto& parameter : parameters)
    if (const auto found = layers.find(parameter.get()); found != layers.end())
      report.layers.push_back(
          {module_name(*parameter),
           found->second.output_squares > 0 ? std::sqrt(found->second.error_squares / found->second.output_squares) : 0,
           8});

  make_directories(output);
  save_checkpoint(output, tensors, uint64_t{5} << 30);
  ignore_vocabulary_heads(*model, ignored);
  write_configurations(*model, static_config_of(ignored, convolutions), output);
  // As everybody will read it.
  const auto made = load_trained(output, {.dtype = "auto", .activations = "static"});
  judge(before, outputs_on(*made, judged), report);
  return report;
}

}  // namespace transom
