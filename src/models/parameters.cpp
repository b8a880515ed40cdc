// SPDX-License-Identifier: Apache-2.0
#include "transom/parameters.h"

#include <algorithm>
#include <set>
#include <span>

#include "base/error.h"
#include "base/numbers/mt19937.h"
#include "files/checkpoint/safetensors.h"
#include "models/replace_value.h"
#include "transom/ops.h"

namespace transom {
namespace {

// A module that asks for more is mistaken: 1 TiB a tensor.
constexpr int64_t kMaximumElements = int64_t{1} << 38;

int64_t checked_elements(const std::string& name, const Shape& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count) || count > kMaximumElements)
      fail("{}: expected a shape of at most 2^38 elements, found {}", name, to_string(shape));
  return count;
}

}  // namespace

struct ParameterSet::Draws {
  explicit Draws(uint64_t seed) : generator(seed) {}
  Mt19937 generator;
  std::set<std::string> names;
};

ParameterSet::ParameterSet(uint64_t seed) : draws_(std::make_unique<Draws>(seed)) {}
ParameterSet::~ParameterSet() = default;

Tensor ParameterSet::fresh(const std::string& name, const Type& type, const Initial& initial) {
  const auto count = static_cast<size_t>(checked_elements(name, type.shape));
  if (!draws_->names.insert(name).second)
    fail("{}: expected a new name, found one that another module has; give each module a scope of its own", name);
  std::vector<float> values(count, 0.0f);
  switch (initial.kind) {
    case Initial::Kind::kZeros:
      break;
    case Initial::Kind::kOnes:
      std::fill(values.begin(), values.end(), 1.0f);
      break;
    case Initial::Kind::kConstant:
      std::fill(values.begin(), values.end(), static_cast<float>(initial.deviation));
      break;
    case Initial::Kind::kGiven:
      if (initial.values.size() != count)
        fail("{}: expected {} values for {}, found {}", name, count, to_string(type.shape), initial.values.size());
      values = initial.values;
      break;
    case Initial::Kind::kNormal:
      draws_->generator.fill_normal(values, 0, static_cast<float>(initial.deviation));
      if (initial.zero_row >= 0 && type.shape.size() == 2 && initial.zero_row < type.shape[0])
        std::fill_n(values.begin() + initial.zero_row * type.shape[1], type.shape[1], 0.0f);
      break;
  }
  const Tensor wide = Tensor::from(values, type.shape);
  if (type.dtype == DType::kFloat32) return wide;
  const Tensor converted = cast(wide, type.dtype);
  eval({&converted, 1});
  return converted;
}

std::shared_ptr<Parameter> ParameterSet::parameter(const std::string& name, const Shape& shape,
                                                   const Initial& initial) {
  auto parameter = std::make_shared<Parameter>(Parameter{name, fresh(name, {DType::kFloat32, shape}, initial)});
  parameter->value.set_requires_grad();
  parameters_.push_back(parameter);
  return parameter;
}

std::shared_ptr<Parameter> ParameterSet::buffer(const std::string& name, const Type& type, const Initial& initial) {
  buffers_.push_back(std::make_shared<Parameter>(Parameter{name, fresh(name, type, initial)}));
  return buffers_.back();
}

void ParameterSet::tied(const std::string&, const std::shared_ptr<Parameter>&, Tie) {}  // of checkpoints alone
void ParameterSet::derived(const std::string&) {}
bool ParameterSet::holds(const std::string&) const { return false; }

void ParameterSet::save(const std::filesystem::path& file) const {
  NamedViews views;
  for (const auto* group : {&parameters_, &buffers_})
    for (const auto& parameter : *group) {
      const auto bytes = std::make_shared<const std::vector<std::byte>>(parameter->value.to_bytes());
      views.emplace_back(parameter->name,
                         TensorView{parameter->value.dtype(), parameter->value.shape(), *bytes, bytes});
    }
  write_safetensors(file, views);
}

void ParameterSet::load(const std::filesystem::path& file) {
  const SafetensorsFile source = SafetensorsFile::open(file);
  for (const auto& [name, view] : source.tensors())
    if (!draws_->names.contains(name))
      fail("{}: tensor {} belongs to no module{}", file.string(), quoted(name),
           did_you_mean(name, {draws_->names.begin(), draws_->names.end()}));
  std::vector<Tensor> values;
  for (const auto* group : {&parameters_, &buffers_})
    for (const auto& parameter : *group) {
      const TensorView* view = source.find(parameter->name);
      if (!view) fail("{}: tensor {} is missing", file.string(), quoted(parameter->name));
      const Type& type = parameter->value.type();
      const bool fits = view->shape == type.shape &&
                        (view->dtype == type.dtype || (is_floating(view->dtype) && is_floating(type.dtype)));
      if (!fits)
        fail("{}: tensor {}: expected {}, found {}", file.string(), quoted(parameter->name), to_string(type),
             to_string(Type{view->dtype, view->shape}));
      const Tensor read = Tensor::from_bytes(view->bytes, {view->dtype, view->shape});
      values.push_back(view->dtype == type.dtype ? read : cast(read, type.dtype));
    }
  eval(values);
  auto value = values.begin();
  for (const auto* group : {&parameters_, &buffers_})
    for (const auto& parameter : *group) replace_value(*parameter, *value++);
}

}  // namespace transom
