// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/adapter_set.h"

#include <set>

#include "base/error.h"
#include "files/hub/adapters.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/adapters/adapted_weights.h"
#include "models/nn/lora.h"
#include "transom/ops.h"

namespace transom {
namespace {

Tensor frozen_copy(const Tensor& tensor) {
  const auto bytes = std::make_shared<const std::vector<std::byte>>(tensor.to_bytes());
  return Tensor::from_frozen(*bytes, tensor.type(), bytes);
}

// Adapters beside a model that others share: their tensors are those of the file, and the weights stay.
class SharedMaking : public AdapterMaking {
 public:
  SharedMaking(AdapterConfig& config, const Model& model, const fs::path& directory)
      : AdapterMaking(config, model, 0), file_(directory, config.kind()) {}

  std::shared_ptr<Parameter> tensor(const std::string& name, const Shape& shape,
                                    const std::function<std::vector<float>()>& initial, Kept kept) override {
    auto parameter = std::make_shared<Parameter>();
    parameter->name = name;
    if (kept == Kept::kOfMemory || kept == Kept::kState || kept == Kept::kTraining) {
      parameter->value = frozen_copy(Tensor::from(initial(), shape));
      return parameter;
    }
    const TensorView* view = file_.find(name);
    if (!view) fail("{}: expected a tensor {}, found none", file_.where(), quoted(name));
    if (view->shape != shape)
      fail("{}: tensor {} has shape {}, the model needs {}", file_.where(), quoted(name), to_string(view->shape),
           to_string(shape));
    used_.insert(name);
    parameter->value = frozen_copy(cast(Tensor::from_bytes(view->bytes, {view->dtype, view->shape}), DType::kFloat32));
    return parameter;
  }
  void give(const AdaptedWeight& target, std::shared_ptr<const WeightAdapter> adapter) override {
    adapters_.emplace(target.weight.get(), with_known_lengths(*target.weight, std::move(adapter)));
  }
  void train(const std::shared_ptr<Parameter>& parameter, const std::string&) override {
    refuse(fmt::format("trains {}", parameter->name));
  }
  void change(const AdaptedWeight& target, const Tensor&, std::string_view field) override {
    refuse(fmt::format("{} changes the weight {}", field, target.module));
  }
  void set_training(std::shared_ptr<AdapterTraining>) override {}
  std::shared_ptr<Parameter> plain_weight(const std::string& name) override {
    refuse(fmt::format("codes of {}", name));
  }
  bool reads_file() const override { return true; }

  AdapterSet finish() {
    for (const auto& [name, view] : file_.views())
      if (!used_.contains(name))
        fail(
            ErrorKind::kUnsupported,
            "{}: tensor {} belongs to no adapter that can stand beside a model which others share; merge such adapters "
            "into the model",
            file_.where(), quoted(name));
    return std::move(adapters_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorKind::kUnsupported, "{}: {}, which other adapters share; merge such adapters into the model",
         config.where(), what);
  }
  // The lengths of rows are computed once.
  static std::shared_ptr<const WeightAdapter> with_known_lengths(const Parameter& weight,
                                                                 std::shared_ptr<const WeightAdapter> adapter) {
    const auto* lora = dynamic_cast<const LowRankAdapter*>(adapter.get());
    if (!lora || !lora->magnitude) return adapter;
    auto known = std::make_shared<LowRankAdapter>(*lora);
    Tensor scales = known->magnitude->value / row_lengths(weight, *known, kAsGiven);
    eval({scales});
    known->row_scales = Tensor::from_bytes(scales.to_bytes(), scales.type());
    return known;
  }

  AdapterFile file_;
  std::set<std::string> used_;
  AdapterSet adapters_;
};

}  // namespace

AdapterSet read_adapter_set(const Model& model, const fs::path& directory) {
  if (!holds_adapters(directory)) fail("{}: expected {} of PEFT, found none", directory.string(), kAdapterConfig);
  if (model.adaptation()) fail("the model has adapters of its own; merge them before it is given others");
  AdapterConfig config(Config::read(directory / kAdapterConfig));
  if (!config.kind().attach)
    fail(ErrorKind::kUnsupported,
         "{}: peft_type {} puts virtual tokens before each row; give its directory as a model of its own",
         config.where(), config.kind().type);
  SharedMaking making(config, model, directory);
  making.targets = adapted_weights(config, model);
  config.kind().attach(making);
  return making.finish();
}

}  // namespace transom
