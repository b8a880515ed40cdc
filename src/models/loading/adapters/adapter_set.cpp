// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/adapter_set.h"

#include <set>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "files/checkpoint/safetensors.h"
#include "files/hub/adapters.h"
#include "graph/ops/products/packed_matrix.h"
#include "models/loading/adapters/lora.h"
#include "models/nn/lora.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr std::string_view kEnding = ".weight";

// [out, in], whichever way round the weight is held.
Shape extents_of(const Parameter& weight) {
  if (weight.packed) return {weight.packed->rows, weight.packed->depth};
  const bool turned = weight.use == Parameter::Use::kTransposedLinear;
  return {weight.value.dim(turned ? 1 : 0), weight.value.dim(turned ? 0 : 1)};
}

class AdapterFile {
 public:
  explicit AdapterFile(const fs::path& directory) : where_((directory / kAdapterFile).string()) {
    if (!path_exists(directory / kAdapterFile)) fail("{}: expected {}, found none", directory.string(), kAdapterFile);
    for (auto& [name, view] : SafetensorsFile::open(directory / kAdapterFile).tensors())
      views_.emplace(name.starts_with(kAdapterPrefix) ? name.substr(kAdapterPrefix.size()) : name, view);
  }
  bool has(const std::string& name) const { return views_.contains(name); }

  // A tensor of the adapter, in f32, as a frozen parameter.
  std::shared_ptr<Parameter> tensor(const std::string& name, const Shape& shape) {
    const auto found = views_.find(name);
    if (found == views_.end()) fail("{}: expected a tensor {}, found none", where_, quoted(name));
    const TensorView& view = found->second;
    if (view.shape != shape)
      fail("{}: tensor {} has shape {}, the model needs {}", where_, quoted(name), to_string(view.shape),
           to_string(shape));
    used_.insert(name);
    const Tensor value = cast(Tensor::from_bytes(view.bytes, {view.dtype, view.shape}), DType::kFloat32);
    const auto bytes = std::make_shared<const std::vector<std::byte>>(value.to_bytes());
    auto parameter = std::make_shared<Parameter>();
    parameter->name = name;
    parameter->value = Tensor::from_frozen(*bytes, value.type(), bytes);
    return parameter;
  }
  void expect_all_used() const {
    for (const auto& [name, view] : views_)
      if (!used_.contains(name))
        fail(ErrorKind::kUnsupported,
             "{}: tensor {} is no low-rank matrix of a linear layer of the model; merge such adapters into the model",
             where_, quoted(name));
  }

 private:
  std::string where_;
  std::map<std::string, TensorView> views_;
  std::set<std::string> used_;
};

}  // namespace

AdapterSet read_adapter_set(const Model& model, const fs::path& directory) {
  if (!holds_adapters(directory)) fail("{}: expected {} of PEFT, found none", directory.string(), kAdapterConfig);
  if (model.adaptation()) fail("the model has adapters of its own; merge them before it is given others");
  const LoraConfig config(Config::read(directory / kAdapterConfig));
  if (config.initial() == LoraConfig::Initial::kOrthonormal)
    fail(ErrorKind::kUnsupported,
         "{}: init_lora_weights = \"olora\" changes the weights that adapters share; merge them", config.where());
  AdapterFile file(directory);
  AdapterSet adapters;
  for (const auto* parameters : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& weight : *parameters) {
      if (weight->use == Parameter::Use::kOther || !weight->name.ends_with(kEnding)) continue;
      const std::string module = weight->name.substr(0, weight->name.size() - kEnding.size());
      if (!file.has(module + ".lora_A.weight")) continue;
      const Shape extents = extents_of(*weight);
      const int64_t rank = config.rank(module);
      const auto adapter = std::make_shared<LowRankAdapter>();
      adapter->a = file.tensor(module + ".lora_A.weight", {rank, extents[1]});
      adapter->b = file.tensor(module + ".lora_B.weight", {extents[0], rank});
      adapter->scaling = config.scaling(module);
      if (config.lora_bias()) adapter->b_bias = file.tensor(module + ".lora_B.bias", {extents[0]});
      if (config.use_dora()) {
        adapter->magnitude = file.tensor(module + ".lora_magnitude_vector", {extents[0]});
        Tensor scales = adapter->magnitude->value / row_lengths(*weight, *adapter, kAsGiven);
        eval({scales});
        adapter->row_scales = Tensor::from_bytes(scales.to_bytes(), scales.type());
      }
      adapters.emplace(weight.get(), adapter);
    }
  file.expect_all_used();
  return adapters;
}

}  // namespace transom
