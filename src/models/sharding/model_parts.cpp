// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/model_parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "models/replace_value.h"
#include "models/sharding/rewrite/part_places.h"
#include "runtime/tensor/host_values.h"

namespace transom {
namespace {

// Deals what several processes have among them, by bytes: each of them finds the same without asking.
class WriterChoice {
 public:
  explicit WriterChoice(const ProcessMesh& mesh) : mesh_(mesh) {}

  bool is_mine(const Placement& placement, const Type& type) {
    MeshAxes copies;  // a stage of a pipeline has what no other one has
    for (const MeshAxis axis : kAllMeshAxes)
      if (axis != MeshAxis::kPipeline && !placement.sharded().has(axis)) copies.add(axis);
    const auto count = static_cast<size_t>(mesh_.size(copies));
    std::vector<int64_t>& bytes = bytes_.try_emplace(to_string(copies), count, 0).first->second;
    const auto least = std::min_element(bytes.begin(), bytes.end());
    *least += elements(type.shape) * static_cast<int64_t>(size_of(type.dtype));
    return least - bytes.begin() == mesh_.coordinate(copies);
  }

 private:
  const ProcessMesh& mesh_;
  std::map<std::string, std::vector<int64_t>> bytes_;
};

// The elements of a box of the part.
std::vector<std::byte> elements_of(const PartBox& box, const std::vector<std::byte>& part, const Shape& shape,
                                   size_t width) {
  std::vector<std::byte> result;
  const size_t rank = shape.size();
  std::vector<int64_t> at(rank, 0);
  const auto run = static_cast<size_t>(rank == 0 ? 1 : box.extents[rank - 1]) * width;
  while (true) {
    int64_t from = 0;
    for (size_t d = 0; d < rank; ++d) from = from * shape[d] + box.local[d] + at[d];
    const std::byte* begin = part.data() + static_cast<size_t>(from) * width;
    result.insert(result.end(), begin, begin + run);
    size_t d = rank == 0 ? 0 : rank - 1;
    while (d > 0 && ++at[d - 1] == box.extents[d - 1]) at[--d] = 0;
    if (d == 0) return result;
  }
}

void add_boxes(const std::string& name, const Tensor& value, ModelSharding& sharding, WriterChoice& choice,
               std::vector<TensorBox>& to) {
  const ShardedTensors& tensors = sharding.tensors();
  const Type type = value.type();
  const bool held = tensors.holds(value);
  if (held && tensors.is_absent(value)) return;
  const Placement placement = held ? tensors.value(value).placement : replicated(type.shape.size());
  if (!choice.is_mine(placement, type)) return;
  const Tensor& local = held ? tensors.value(value).local : value;
  const auto bytes = std::make_shared<const std::vector<std::byte>>(local.to_bytes());
  for (const PartBox& box : boxes_of_part(tensors.mesh(), placement, type.shape)) {
    std::shared_ptr<const std::vector<std::byte>> mine = bytes;
    if (box.extents != local.shape())
      mine =
          std::make_shared<const std::vector<std::byte>>(elements_of(box, *bytes, local.shape(), size_of(type.dtype)));
    to.push_back({name, box.offsets, TensorView{type.dtype, box.extents, *mine, mine}});
  }
}

void expect_finite(const std::vector<TensorBox>& boxes) {
  for (const TensorBox& box : boxes) {
    if (box.view.dtype != DType::kFloat32) continue;
    for (size_t i = 0; i < box.view.bytes.size(); i += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, box.view.bytes.data() + i, sizeof value);
      if (!std::isfinite(value)) fail("the weights are not finite ({}) and are not saved", box.name);
    }
  }
}

Tensor read_part(const ShardedTensorFiles& files, const std::string& name, const Type& type, const Placement& placement,
                 MeshAxes stored, ShardedTensors& tensors, bool on_host = false) {
  const auto found = files.tensors().find(name);
  if (found == files.tensors().end())
    fail("{}: expected {}, found none; was another model or optimizer saved there?", files.where(), quoted(name));
  if (const Type there{found->second.dtype, found->second.shape}; there != type)
    fail("{}: {} is {}, the run that is resumed has {}", files.where(), quoted(name), to_string(there),
         to_string(type));
  std::vector<std::byte> bytes = files.read(name, places_of_part(tensors.mesh(), placement, type.shape));
  const Type local{type.dtype, local_shape(tensors.mesh(), placement, type.shape)};
  return tensors.hold(on_host ? in_host_memory(std::move(bytes), local) : Tensor::from_bytes(bytes, local), type,
                      placement, stored);
}

}  // namespace

ModelParts copy_parts(ModelSharding& sharding, const Model& model, const Optimizer* optimizer) {
  ModelParts parts;
  WriterChoice choice(sharding.tensors().mesh());
  for (const auto* group : {&model.parameters(), &model.frozen(), &model.buffers()})
    for (const std::shared_ptr<Parameter>& parameter : *group) {
      if (parameter->packed)
        fail("{}: compressed weights are not saved in parts; set state_dict_type FULL_STATE_DICT in fsdp_config",
             parameter->name);
      if (parameter->value.defined()) add_boxes(parameter->name, parameter->value, sharding, choice, parts.weights);
    }
  expect_finite(parts.weights);
  if (optimizer)
    for (const auto& [name, value] : optimizer->state()) add_boxes(name, value, sharding, choice, parts.states);
  return parts;
}

void load_weights(const ShardedTensorFiles& files, ModelSharding& sharding, Model& model) {
  for (const auto* group : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *group) {
      if (!parameter->value.defined()) continue;
      if (!sharding.is_home(*parameter)) continue;
      replace_value(*parameter, read_part(files, parameter->name, parameter->value.type(), sharding.home_of(*parameter),
                                          sharding.stored_axes(), sharding.tensors()));
    }
  for (const std::shared_ptr<Parameter>& buffer : model.buffers()) {
    const Type type = buffer->value.type();
    const TensorView view = files.whole(buffer->name);
    if (const Type there{view.dtype, view.shape}; there != type)
      fail("{}: {} is {}, the run that is resumed has {}", files.where(), quoted(buffer->name), to_string(there),
           to_string(type));
    buffer->value = Tensor::from_bytes(view.bytes, type);
  }
}

void load_states(const ShardedTensorFiles& files, int64_t steps, ModelSharding& sharding, Optimizer& optimizer,
                 const std::vector<OptimizedParameter>& trained) {
  std::vector<std::pair<std::string, Tensor>> state;
  const std::vector<OptimizedParameter> mine = sharding.at_home(trained);
  for (const auto& [name, type] : optimizer.state_layout(mine))
    state.emplace_back(name, read_part(files, name, type, sharding.state_placement(name, type, trained), {},
                                       sharding.tensors(), sharding.layout().offloads_state));
  optimizer.load(steps, std::move(state), mine);
}

}  // namespace transom
