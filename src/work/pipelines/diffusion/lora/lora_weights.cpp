// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/lora/lora_weights.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "runtime/tensor/evaluate.h"
#include "transom/ops.h"
#include "work/pipelines/diffusion/lora/lora_file.h"
#include "work/pipelines/diffusion/lora/lora_names.h"

namespace transom {
namespace {

// The weights that a module of a file stands for: rows of its product follow each other, those of one weight behind
// those of another.
struct LoraTarget {
  Parameter* weight;
  bool swaps;  // the halves of the rows
};
using LoraTargets = std::map<std::string, std::vector<LoraTarget>>;  // by the flat names of modules

// Modules that are one in the original files come in the order of their rows only where all of them are there.
void add_original(std::map<std::string, std::map<size_t, LoraTarget>>& joined, std::map<std::string, size_t>& counts,
                  Parameter* weight, const OriginalName& name) {
  joined[name.name].emplace(name.place, LoraTarget{weight, name.swaps});
  if (name.is_last) counts[name.name] = name.place + 1;
}

LoraTargets targets_of(const Model& model) {
  LoraTargets targets;
  std::map<std::string, std::map<size_t, LoraTarget>> joined;
  std::map<std::string, size_t> counts;
  const Json config = json_of(model.config());
  const Json given = config.value("layers_per_block", Json());  // a number, or one for each block
  const Json first = given.is_array() && !given.empty() ? given[0] : given;
  for (const auto* list : {&model.parameters(), &model.frozen()})
    for (const auto& parameter : *list) {
      if (!parameter->name.ends_with(".weight")) continue;
      const std::string flat = flat_module(parameter->name.substr(0, parameter->name.size() - 7));
      targets[flat] = {{parameter.get(), false}};
      if (first.is_number_integer()) {
        const OriginalName other = unet_original(flat, std::clamp<int64_t>(first.get<int64_t>(), 0, 100));
        if (!other.name.empty()) add_original(joined, counts, parameter.get(), other);
        continue;
      }
      const Shape shape = parameter->value.defined() ? parameter->value.shape() : Shape();
      for (const OriginalName& other :
           flow_originals(flat, shape.size() == 2 ? shape[0] / std::max<int64_t>(shape[1], 1) : 0))
        add_original(joined, counts, parameter.get(), other);
    }
  for (const auto& [name, weights] : joined) {
    if (weights.size() != counts[name]) continue;
    std::vector<LoraTarget> list;
    for (const auto& [place, weight] : weights) list.push_back(weight);
    targets.emplace(name, std::move(list));
  }
  return targets;
}

Tensor matrix_of(const TensorView& view) {
  const int64_t rows = view.shape[0];
  const Tensor values = cast(Tensor::from_bytes(view.bytes, {view.dtype, view.shape}), DType::kFloat32);
  return reshape(values, {rows, elements(view.shape) / rows});
}

void expect_plain(const Parameter& weight, const LoraProduct& product, const std::string& where) {
  if (weight.packed || !weight.value.defined() || weight.use == Parameter::Use::kTransposedLinear)
    fail(ErrorKind::kUnsupported,
         "{}: {}: the weight is packed: LoRA is added to plain weights; load without "
         "quantization",
         where, quoted(product.module, 120));
}

// What is added to each of the weights.
std::vector<Tensor> changes_of(const std::vector<LoraTarget>& targets, const LoraProduct& product, double factor,
                               const std::string& where) {
  int64_t rows = 0;
  std::string shapes;
  for (const LoraTarget& target : targets) {
    expect_plain(*target.weight, product, where);
    rows += target.weight->value.rank() < 2 ? 0 : target.weight->value.dim(0);
    shapes += (shapes.empty() ? "[" : ", [") + fmt::format("{}]", fmt::join(target.weight->value.shape(), ", "));
  }
  const int64_t rank = product.down.shape[0], inputs = elements(product.down.shape) / rank;
  for (const LoraTarget& target : targets) {
    const Shape shape = target.weight->value.shape();
    if (shape.size() < 2 || product.up.shape[0] != rows || elements(product.up.shape) != rows * rank ||
        inputs * shape[0] != elements(shape) || (target.swaps && shape[0] % 2 != 0))
      fail("{}: {}: the factors [{}] and [{}] make no weight {}", where, quoted(product.module, 120),
           fmt::join(product.up.shape, ", "), fmt::join(product.down.shape, ", "), shapes);
  }
  const Tensor up = matrix_of(product.up), down = matrix_of(product.down);
  std::vector<Tensor> changes;
  int64_t begin = 0;
  for (const LoraTarget& target : targets) {
    const Shape shape = target.weight->value.shape();
    Tensor own = targets.size() == 1 ? up : slice(up, 0, begin, begin + shape[0]);
    if (target.swaps) own = concatenate({slice(own, 0, shape[0] / 2, shape[0]), slice(own, 0, 0, shape[0] / 2)}, 0);
    changes.push_back(reshape(matmul(own, down, Computing{}) * (product.scale * factor), shape));
    begin += shape[0];
  }
  return changes;
}

}  // namespace

void LoraWeights::remove() {
  for (auto& [parameter, value] : originals_) parameter->value = value;
  originals_.clear();
  used_.clear();
}

void LoraWeights::add(const LoraFile& file, const Parts& parts) {
  for (const auto& [part, products] : read_lora(file.path)) {
    const auto found =
        std::find_if(parts.begin(), parts.end(), [&, &part = part](const auto& each) { return each.first == part; });
    if (found == parts.end() || !found->second)
      fail("{}: changes the part {}, which the pipeline does not have", file.path, part);
    const LoraTargets targets = targets_of(*found->second);
    for (const auto& [flat, product] : products) {
      const auto target = targets.find(flat);
      if (target == targets.end())
        fail("{}: {}: the {} has no such module; is the file of another model?", file.path, quoted(product.module, 120),
             found->second->architecture());
      const std::vector<Tensor> changes = changes_of(target->second, product, file.scale, file.path);
      for (size_t i = 0; i < changes.size(); ++i) {
        Parameter& parameter = *target->second[i].weight;
        const auto kept = std::find_if(originals_.begin(), originals_.end(),
                                       [&](const auto& each) { return each.first == &parameter; });
        if (kept == originals_.end()) originals_.emplace_back(&parameter, parameter.value);
        parameter.value = cast(cast(parameter.value, DType::kFloat32) + changes[i], parameter.value.dtype());
      }
    }
  }
}

void LoraWeights::use(const std::vector<LoraFile>& files, const Parts& parts) {
  if (files == used_) return;
  remove();
  if (files.empty()) return;
  const NoGradient no_gradient;
  try {
    for (const LoraFile& file : files) add(file, parts);
    std::vector<Tensor> values;
    for (const auto& [parameter, original] : originals_) values.push_back(parameter->value);
    eval(values);
  } catch (...) {
    remove();
    throw;
  }
  used_ = files;
}

}  // namespace transom
