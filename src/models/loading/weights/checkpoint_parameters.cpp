// SPDX-License-Identifier: Apache-2.0
#include "models/loading/weights/checkpoint_parameters.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "files/checkpoint/converted_view.h"
#include "models/loading/family_names.h"
#include "models/loading/weights/unread_tensors.h"
#include "models/shared/mixtures/fused_experts.h"
#include "models/unfinite_numbers.h"
#include "runtime/device/descriptions/descriptions.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr size_t kMaximumTensors = 200'000;
constexpr int64_t kMaximumBytes = int64_t{1} << 42;  // of one tensor

Shape turned_shape(const Shape& shape) { return shape.size() == 2 ? Shape{shape[1], shape[0]} : shape; }

Tensor from_view(const TensorView& view, DType dtype) {
  const auto frozen = [](const TensorView& in) {
    return Tensor::from_frozen(in.bytes, {in.dtype, in.shape}, in.owner);
  };
  if (view.dtype == dtype) return frozen(view);
  if (const std::optional<TensorView> other = converted_view(view, dtype)) return frozen(*other);
  Tensor converted = cast(frozen(view), dtype);
  eval({converted});
  return converted;
}

}  // namespace

std::shared_ptr<Parameter> CheckpointParameters::parameter(const std::string& name, const Shape& shape,
                                                           const Initial& initial) {
  parameters.push_back(loaded(name, {dtype_, shape}, initial, true));
  return parameters.back();
}

std::shared_ptr<Parameter> CheckpointParameters::buffer(const std::string& name, const Type& type,
                                                        const Initial& initial) {
  buffers.push_back(loaded(name, type, initial, false));
  return buffers.back();
}

bool CheckpointParameters::holds(const std::string& name) const {
  if (!checkpoint_) return false;
  for (const std::string& candidate : names_in_checkpoints(name, family_))
    if (checkpoint_->find(candidate) || checkpoint_->find_compressed(candidate)) return true;
  return false;
}

void CheckpointParameters::tied(const std::string& name, const std::shared_ptr<Parameter>& parameter, Tie tie) {
  if (!checkpoint_) return;
  const TensorView* other = find(name);
  const bool in_codes = find_compressed(name) != nullptr;
  for (size_t i = 0; i < pending_.size(); ++i)
    if (pending_[i].parameter == parameter && pending_[i].is_missing) {
      load_pending(i, name);
      return;
    }
  const auto own = views_.find(parameter.get());
  if (in_codes || own == views_.end() || !other || hold_the_same(*own->second, *other)) return;
  if (tie == Tie::kShared) {
    untied_.emplace_back(parameter->name, name);
    return;
  }
  overruled_.emplace_back(parameter->name, name);
  load(name, {parameter->value.dtype(), parameter->value.shape()}, *parameter);
  parameter->value.set_requires_grad();
}

void CheckpointParameters::finish(const Config& config) {
  if (checkpoint_ && !report.missing.empty()) complete_by_family(config);
  draw_pending();
  if (!checkpoint_) return;
  expect_all_experts();
  if (!parameters.empty() && report.missing.size() == parameters.size() + buffers.size())
    fail("{}: holds no tensor of the model that config.json describes: expected {} ..., found {}", checkpoint_->where(),
         quoted(report.missing[0]),
         checkpoint_->tensors().empty() ? "none" : quoted(checkpoint_->tensors()[0].first) + " ...");
  for (const auto& [name, view] : checkpoint_->tensors())
    if (!used_.contains(name) && !is_computed_buffer(name)) report.unexpected.push_back(name);
  for (const auto& [name, weight] : checkpoint_->compressed())
    if (!used_.contains(name)) report.unexpected.push_back(name);
  expect_nothing_left_out(*checkpoint_, report.unexpected, used_, family_.model_type);
  if (!input_scales_.empty())  // layers of integers would hide what is not finite
    for (const auto& [name, view] : checkpoint_->tensors())
      if (used_.contains(name)) expect_finite(view, fmt::format("{}: tensor {}", checkpoint_->where(), quoted(name)));
}

void CheckpointParameters::complete_by_family(const Config& config) {
  for (const auto& [one, other] : tied_names(family_, config, *this))
    for (size_t i = pending_.size(); i-- > 0;) {
      if (!pending_[i].is_missing) continue;
      const std::vector<std::string> names = names_in_checkpoints(pending_[i].parameter->name, family_);
      const auto is_named = [&names = names](const std::string& name) {
        return std::find(names.begin(), names.end(), name) != names.end();
      };
      if (is_named(one) ? load_pending(i, other) : is_named(other) && load_pending(i, one)) break;
    }
}

bool CheckpointParameters::load_pending(size_t place, const std::string& name) {
  const Pending pending = pending_[place];
  if (!load(name, pending.type, *pending.parameter)) return false;
  if (!pending.parameter->value.defined() && !pending.parameter->packed) return true;  // of another shape: drawn
  if (pending.is_trained && !pending.parameter->packed) pending.parameter->value.set_requires_grad();
  std::erase(report.missing, pending.parameter->name);
  pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(place));
  return true;
}

void CheckpointParameters::draw_pending() {
  for (const Pending& each : pending_) {
    each.parameter->value = fresh(each.type, each.initial);
    if (each.is_trained) each.parameter->value.set_requires_grad();
  }
  pending_.clear();
}

void CheckpointParameters::convert_stored(Parameter& parameter, int64_t vocabulary) const {
  const auto stored = stored_.find(&parameter);
  if (stored == stored_.end() || parameter.use == Parameter::Use::kLinear) return;
  if (parameter.use == Parameter::Use::kOther && stored->second.shape.at(0) == vocabulary) return;
  parameter.value = from_view(stored->second, parameter.value.dtype());
}

bool CheckpointParameters::turn_coded(Parameter& parameter) {
  const auto coded = coded_.find(&parameter);
  if (coded == coded_.end()) return false;
  const auto& [stored, wanted] = coded->second;
  const bool is_turned = parameter.use == Parameter::Use::kTransposedLinear;
  const Shape shape = is_turned ? turned_shape(stored) : stored;
  if (shape != wanted.shape) {
    replace_mismatched(shape, wanted, parameter);
    return true;
  }
  if (!is_turned || parameter.packed) return false;
  const NoGradient plain;
  parameter.value = permute(parameter.value, {1, 0});
  eval({parameter.value});
  return true;
}

std::shared_ptr<Parameter> CheckpointParameters::loaded(const std::string& name, const Type& type,
                                                        const Initial& initial, bool trained) {
  check_size(name, type);
  auto parameter = std::make_shared<Parameter>(Parameter{name_of_renamed(name), {}});
  const bool found = checkpoint_ && load(name, type, *parameter);
  if (checkpoint_ && !found) report.missing.push_back(name);
  if (parameter->packed) return parameter;
  if (!parameter->value.defined()) pending_.push_back({parameter, type, initial, !found, trained});
  else if (trained) parameter->value.set_requires_grad();
  return parameter;
}

// Gives the parameter what the checkpoint holds under this name; false where it holds nothing. What has another shape,
// and may be made new, stays without a value.
bool CheckpointParameters::load(const std::string& name, const Type& type, Parameter& parameter) {
  const Shape& shape = type.shape;
  if (const CompressedWeight* weight = find_compressed(name)) {
    load_compressed(*weight, type, parameter);
    return true;
  }
  const TensorView* view = find(name);
  if (!view) return false;
  const bool codes = view->dtype == DType::kUInt8 || view->dtype == DType::kInt8;
  if (codes && is_floating(type.dtype) && shape.size() > 1)
    fail("{}: tensor {} holds codes ({}), of which config.json has no quantization_config; expected numbers",
         checkpoint_->where(), quoted(name), name_of(view->dtype));
  if (view->shape != shape) {
    if (!options_.ignore_mismatched_sizes)
      fail(
          "{}: tensor {} has shape {}, the model that config.json describes needs {}; ignore_mismatched_sizes makes "
          "it new",
          checkpoint_->where(), quoted(name), to_string(view->shape), to_string(shape));
    report.mismatched.push_back(name);
    return true;
  }
  views_[&parameter] = view;
  if (is_kept_stored(*view, type)) {
    parameter.value = cast(Tensor::from_frozen(view->bytes, {view->dtype, view->shape}, view->owner), type.dtype);
    stored_[&parameter] = *view;
  } else {
    parameter.value = from_view(*view, type.dtype);
  }
  return true;
}

// Before the layers say whose weight it is: see convert_stored(). Other devices keep no weights of two types at once,
// and who evaluates such a weight by itself, as eager mode does, gets numbers that are not frozen.
bool CheckpointParameters::is_kept_stored(const TensorView& view, const Type& type) const {
  return type.dtype == DType::kFloat32 && (view.dtype == DType::kBFloat16 || view.dtype == DType::kFloat16) &&
         type.shape.size() == 2 && options_.quantization == Quantization::kNone && options_.keep_stored_types &&
         mode() != Mode::kEager && has_trait("stored_weights");
}

// As the model would read them: a file may hold one of the two in another type.
bool CheckpointParameters::hold_the_same(const TensorView& a, const TensorView& b) const {
  if (a.shape != b.shape) return false;
  if (a.dtype != b.dtype) return from_view(a, dtype_).to_bytes() == from_view(b, dtype_).to_bytes();
  return a.bytes.data() == b.bytes.data() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
}

// Codes stay codes, unless the options or the size of their groups want plain numbers.
void CheckpointParameters::load_compressed(const CompressedWeight& weight, const Type& type, Parameter& parameter) {
  const BlockLayout& layout = weight.matrix->layout();
  const Shape shape = weight.shape.empty() ? Shape{layout.rows, layout.depth} : weight.shape;
  if (shape != type.shape && turned_shape(shape) != type.shape) return replace_mismatched(shape, type, parameter);
  coded_.emplace(&parameter, std::pair(shape, type));
  if (weight.integers && options_.quantization != Quantization::kDecompressed &&
      (options_.activations != Activations::kFloat32 || options_.quantization == Quantization::kInt8)) {
    parameter.packed = std::make_shared<const PackedMatrix>(integer_matrix(*weight.integers, input_scales_));
    return;
  }
  if (options_.quantization != Quantization::kDecompressed && weight.shape.empty())
    if (std::optional<PackedMatrix> packed = packed_matrix(weight.matrix, true)) {
      if (options_.activations == Activations::kInt8 || options_.quantization == Quantization::kInt8)
        packed->activations = rounded_activations(layout);
      else if (options_.activations == Activations::kFastest) packed->activations = fast_activations(layout);
      else if (options_.activations == Activations::kFloat8) {
        if (!holds_float8(layout))
          fail(ErrorKind::kUsage, "{}: activations float8: {} has codes of {} bits, expected f8_e4m3fn",
               checkpoint_->where(), quoted(parameter.name), layout.bits);
        packed->activations = "float8";
      }
      parameter.packed = std::make_shared<const PackedMatrix>(*std::move(packed));
      return;
    }
  parameter.value = from_view(dequantised_view(*weight.matrix, weight.shape), type.dtype);
}

void CheckpointParameters::replace_mismatched(const Shape& found, const Type& wanted, Parameter& parameter) {
  if (!options_.ignore_mismatched_sizes)
    fail("{}: the compressed weight {} has shape {}, the model that config.json describes needs {}",
         checkpoint_->where(), quoted(parameter.name), to_string(found), to_string(wanted.shape));
  report.mismatched.push_back(parameter.name);
  parameter.packed = nullptr;
  parameter.value = fresh(wanted, Initial::normal(0.02));
}

// What a configuration claims is checked before memory is taken for it.
void CheckpointParameters::check_size(const std::string& name, const Type& type) const {
  if (parameters.size() + buffers.size() >= kMaximumTensors)
    fail("config.json: describes a model of more than {} tensors, up to {}; are num_hidden_layers and the like right?",
         kMaximumTensors, quoted(name));
  int64_t bytes = static_cast<int64_t>(sizeof(float));
  bool fits = true;
  for (const int64_t extent : type.shape) fits &= extent >= 0 && !__builtin_mul_overflow(bytes, extent, &bytes);
  if (!fits || bytes > kMaximumBytes) fail("config.json: gives {} the shape {}", name, to_string(type.shape));
}

// Of a family whose parts have had other names: the one that the checkpoint has for this parameter.
std::string CheckpointParameters::name_of_renamed(const std::string& name) const {
  if (!checkpoint_ || family_.weights.renamed_parts.empty()) return name;
  for (const std::string& candidate : names_in_checkpoints(name, family_))
    if (checkpoint_->find(candidate) || checkpoint_->find_compressed(candidate)) return candidate;
  return name;
}

const TensorView* CheckpointParameters::find(const std::string& name) {
  if (!checkpoint_) return nullptr;
  for (const std::string& candidate : names_in_checkpoints(name, family_))
    if (const TensorView* view = checkpoint_->find(candidate)) {
      used_.insert(candidate);
      return view;
    }
  return find_among_experts(name);
}

const TensorView* CheckpointParameters::find_among_experts(const std::string& name) {
  const std::optional<FusedExpert> place = fused_expert(name);
  if (!place) return nullptr;
  for (const std::string& candidate : names_in_checkpoints(place->tensor, family_)) {
    const TensorView* all = checkpoint_->find(candidate);
    if (!all) continue;
    used_.insert(candidate);
    const std::string where = fmt::format("{}: tensor {}", checkpoint_->where(), quoted(candidate));
    FusedTensor& fused = fused_[candidate];
    fused.count = all->shape.empty() ? 0 : all->shape[0] * place->parts;
    bool turned = false;
    if (!place->always)
      for (const std::string& biases : names_in_checkpoints(place->biases, family_))
        turned = turned || checkpoint_->find(biases) != nullptr;
    if (place->is_bias && !turned) fail("{}: there is no {} beside it", where, quoted(place->biases));
    TensorView view = turned ? turned_back(*all, *place, where) : view_of_expert(*all, *place, where);
    return &fused.parts.insert_or_assign(name, std::move(view)).first->second;
  }
  return nullptr;
}

// A file with more experts than the configuration would lose some without a word.
void CheckpointParameters::expect_all_experts() const {
  for (const auto& [name, fused] : fused_)
    if (const auto found = static_cast<int64_t>(fused.parts.size()); found != fused.count)
      fail("{}: tensor {} holds {} weights of experts, the model that config.json describes has {}",
           checkpoint_->where(), quoted(name), fused.count, found);
}

const CompressedWeight* CheckpointParameters::find_compressed(const std::string& name) {
  if (!checkpoint_ || checkpoint_->compressed().empty()) return nullptr;
  for (const std::string& candidate : names_in_checkpoints(name, family_))
    if (const CompressedWeight* weight = checkpoint_->find_compressed(candidate)) {
      used_.insert(candidate);
      return weight;
    }
  return nullptr;
}

Tensor CheckpointParameters::fresh(const Type& type, const Initial& initial) {
  const Shape& shape = type.shape;
  const double constant = initial.kind == Initial::Kind::kOnes       ? 1.0
                          : initial.kind == Initial::Kind::kConstant ? initial.deviation
                                                                     : 0.0;
  std::vector<float> values(static_cast<size_t>(elements(shape)), static_cast<float>(constant));
  if (initial.kind == Initial::Kind::kGiven) values = initial.values;
  if (initial.kind == Initial::Kind::kNormal) {
    generator_.fill_normal(values, 0, static_cast<float>(initial.deviation));
    if (initial.zero_row >= 0 && shape.size() == 2 && initial.zero_row < shape[0])
      std::fill_n(values.begin() + initial.zero_row * shape[1], shape[1], 0.0f);
  }
  // As if they had been read: what is computed with fresh weights takes as long as with a checkpoint's.
  const auto held = std::make_shared<const std::vector<float>>(std::move(values));
  return from_view({DType::kFloat32, shape, std::as_bytes(std::span(*held)), held}, type.dtype);
}

}  // namespace transom
