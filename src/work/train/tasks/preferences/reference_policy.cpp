// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/reference_policy.h"

#include "base/error.h"
#include "files/checkpoint/safetensors.h"
#include "graph/ir/node.h"
#include "runtime/device/device.h"
#include "runtime/tensor/evaluate.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Values = std::vector<std::pair<std::shared_ptr<Parameter>, Tensor>>;

// While it lives, parameters have these values.
class InPlace {
 public:
  explicit InPlace(const Values& values) : values_(values) {
    for (const auto& [parameter, value] : values_) before_.push_back(std::exchange(parameter->value, value));
  }
  ~InPlace() {
    for (size_t i = 0; i < values_.size(); ++i) values_[i].first->value = std::move(before_[i]);
  }
  InPlace(const InPlace&) = delete;
  InPlace& operator=(const InPlace&) = delete;

 private:
  const Values& values_;
  std::vector<Tensor> before_;
};

// Steps write into the memory of weights, but for those that lie in a file. These are frozen, and a device has other
// products for frozen weights, which round elsewhere. The policy's weights are not frozen; where its values are the
// reference's, the rewards are exactly 0, so the reference's are not frozen either.
Tensor kept_value(const Tensor& value, ReferencePolicy::During during) {
  const std::shared_ptr<Buffer> buffer = buffer_of(value);
  if (buffer->is_writable())
    return during == ReferencePolicy::During::kTraining ? Tensor::from_bytes(value.to_bytes(), value.type())
                                                        : make_input(value.type(), buffer);
  const std::byte* memory = buffer->host_pointer();
  return make_input(value.type(), memory ? buffer->device().borrow({memory, buffer->bytes()}, buffer) : buffer);
}

}  // namespace

ReferencePolicy::ReferencePolicy(const Model& model, During during) {
  for (const auto& parameter : model.parameters())
    if (parameter->value.requires_grad()) values_.emplace_back(parameter, kept_value(parameter->value, during));
}

NamedTensors ReferencePolicy::outputs(const Model& model, const NamedTensors& inputs,
                                      const ForwardContext& context) const {
  const InPlace these(values_);
  const NoGradient fixed;
  ForwardContext evaluated{.token_loss = context.token_loss, .computing = context.computing};
  evaluated.computing.noise = nullptr;
  return model.forward(inputs, evaluated);
}

Tensor ReferencePolicy::logits(const Model& model, const NamedTensors& inputs, const ForwardContext& context) const {
  return outputs(model, inputs, context).at("logits");
}

void ReferencePolicy::move_towards(const Model&, double alpha) {
  const NoGradient only_numbers;
  std::vector<Tensor> now;
  for (auto& [parameter, value] : values_) {
    value = value * (1 - alpha) + parameter->value.detach() * alpha;
    now.push_back(value);
  }
  eval(now);
}

void ReferencePolicy::save(const std::filesystem::path& file) const {
  NamedViews views;
  for (const auto& [parameter, value] : values_) {
    const auto bytes = std::make_shared<const std::vector<std::byte>>(value.to_bytes());
    views.emplace_back(parameter->name, TensorView{value.dtype(), value.shape(), *bytes, bytes});
  }
  write_safetensors(file, views);
}

void ReferencePolicy::load(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  for (auto& [parameter, value] : values_) {
    const TensorView* found = nullptr;
    for (const auto& [name, view] : file.tensors())
      if (name == parameter->name) found = &view;
    require(found && found->dtype == value.dtype() && found->shape == value.shape(),
            "{}: expected the reference's {} of {}, found {}", path.string(), parameter->name, to_string(value.type()),
            found ? "another type" : "none");
    value = Tensor::from_bytes(found->bytes, value.type());
  }
}

}  // namespace transom
