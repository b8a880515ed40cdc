// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/diffusion/weight_average.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "files/checkpoint/safetensors.h"
#include "runtime/tensor/evaluate.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char* kAverageFile = "ema.safetensors";

}  // namespace

WeightAverage::WeightAverage(const Model& model, Growth growth) : growth_(growth) {
  if (model.adaptation())
    fail(ErrorKind::kUsage, "--use_ema: averages whole weights, and --use_peft trains adapters; leave one of them out");
  for (const auto& parameter : model.parameters())
    values_.emplace_back(parameter->name, Tensor::from_bytes(parameter->value.to_bytes(), parameter->value.type()));
}

double WeightAverage::kept(int64_t steps) const {
  const auto before = static_cast<double>(std::max<int64_t>(steps - 1, 0));
  if (before <= 0) return 0;
  const double grown =
      growth_.by_power ? 1 - std::pow(1 + before / growth_.gamma, -growth_.power) : (1 + before) / (10 + before);
  return std::max(0.0, std::min(grown, growth_.most));
}

void WeightAverage::update(const Model& model, int64_t steps) {
  const NoGradient only_numbers;
  const double share = 1 - kept(steps);
  const auto& parameters = model.parameters();
  if (parameters.size() != values_.size())
    fail("--use_ema: the model has {} weights, and {} are averaged", parameters.size(), values_.size());
  std::vector<Tensor> now;
  for (size_t i = 0; i < values_.size(); ++i) {
    Tensor& value = values_[i].second;
    value = value - (value - parameters[i]->value.detach()) * share;
    now.push_back(value);
  }
  eval(now);
}

void WeightAverage::write(const std::filesystem::path& file) const {
  NamedViews views;
  for (const auto& [name, value] : values_) {
    const auto bytes = std::make_shared<const std::vector<std::byte>>(value.to_bytes());
    views.emplace_back(name, TensorView{value.dtype(), value.shape(), *bytes, bytes});
  }
  write_safetensors(file, views);
}

void WeightAverage::save(const std::filesystem::path& directory) const { write(directory / kAverageFile); }

void WeightAverage::load(const std::filesystem::path& directory) {
  const SafetensorsFile file = SafetensorsFile::open(directory / kAverageFile);
  for (auto& [name, value] : values_) {
    const TensorView* found = file.find(name);
    require(found && found->dtype == value.dtype() && found->shape == value.shape(),
            "{}: expected the average of {}, {}, found {}", (directory / kAverageFile).string(), name,
            to_string(value.type()), found ? "another type" : "none");
    value = Tensor::from_bytes(found->bytes, value.type());
  }
}

}  // namespace transom
