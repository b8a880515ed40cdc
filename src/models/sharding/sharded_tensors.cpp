// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/sharded_tensors.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "graph/ir/claimed_graph.h"
#include "models/sharding/rewrite/order_collectives.h"
#include "models/sharding/rewrite/part_places.h"
#include "runtime/tensor/host_values.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Copies of the part, in one run of bytes for each run of places of the last cut dimension.
void copy_part(std::span<const std::byte> from, const Shape& shape, const std::vector<std::vector<int64_t>>& places,
               size_t dimension, int64_t base, const std::vector<int64_t>& strides, size_t last, size_t width,
               std::vector<std::byte>& to) {
  const auto append = [&](int64_t begin, int64_t count) {
    const auto* at = from.data() + static_cast<size_t>(begin) * width;
    to.insert(to.end(), at, at + static_cast<size_t>(count) * width);
  };
  if (dimension == last) {
    const std::vector<int64_t>& mine = places[dimension];
    for (size_t i = 0; i < mine.size();) {
      size_t end = i + 1;
      while (end < mine.size() && mine[end] == mine[end - 1] + 1) ++end;
      append(base + mine[i] * strides[dimension], static_cast<int64_t>(end - i) * strides[dimension]);
      i = end;
    }
    return;
  }
  for (const int64_t place : places[dimension])
    copy_part(from, shape, places, dimension + 1, base + place * strides[dimension], strides, last, width, to);
}

std::vector<std::byte> bytes_of_part(const ProcessMesh& mesh, std::span<const std::byte> whole, const Type& type,
                                     const Placement& placement) {
  const std::vector<std::vector<int64_t>> places = places_of_part(mesh, placement, type.shape);
  std::vector<int64_t> strides(type.shape.size(), 1);
  size_t last = 0;
  for (size_t d = type.shape.size(); d-- > 1;) strides[d - 1] = strides[d] * type.shape[d];
  for (size_t d = 0; d < type.shape.size(); ++d)
    if (!placement.dimensions[d].empty()) last = d;
  std::vector<std::byte> result;
  result.reserve(static_cast<size_t>(elements(local_shape(mesh, placement, type.shape))) * size_of(type.dtype));
  copy_part(whole, type.shape, places, 0, 0, strides, last, size_of(type.dtype), result);
  return result;
}

// The values of a tensor: in place where they lie in a mapped file, so that only those are read of which a copy is
// made.
class ReadableValues {
 public:
  explicit ReadableValues(const Tensor& tensor) {
    if (!is_in_host_memory(tensor)) {
      const std::shared_ptr<Buffer> buffer = buffer_of(tensor);
      if (const std::byte* begin = buffer->frozen() ? buffer->host_pointer() : nullptr) {
        bytes_ = {begin, buffer->bytes()};
        held_ = buffer;
        return;
      }
    }
    copy_ = tensor.to_bytes();
    bytes_ = copy_;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> copy_;
  std::shared_ptr<Buffer> held_;
  std::span<const std::byte> bytes_;
};

}  // namespace

Tensor ShardedTensors::hold(Tensor local, const Type& type, const Placement& placement, MeshAxes stored) {
  const Shape expected = local_shape(mesh_, placement, type.shape);
  if (local.shape() != expected || local.dtype() != type.dtype)
    fail(ErrorKind::kInternal, "expected a part {} of {}, found {}", to_string(expected), to_string(type),
         to_string(local.type()));
  Tensor handle = make_input(type);
  held_.emplace(handle, Held{{std::move(local), type.shape, placement}, stored});
  return handle;
}

Tensor ShardedTensors::hold_part_of(const Tensor& whole, const Placement& placement, MeshAxes stored) {
  const Type type = whole.type();
  if (placement.sharded().empty()) {
    const Tensor local = buffer_of(whole)->is_writable() ? whole : Tensor::from_bytes(whole.to_bytes(), type);
    return hold(local, type, placement, stored);
  }
  return hold(Tensor::from_bytes(bytes_of_part(mesh_, ReadableValues(whole).bytes(), type, placement),
                                 {type.dtype, local_shape(mesh_, placement, type.shape)}),
              type, placement, stored);
}

Tensor ShardedTensors::hold_part_on_host(const Tensor& whole, const Placement& placement) {
  const Type type = whole.type();
  std::vector<std::byte> bytes = whole.to_bytes();
  if (!placement.sharded().empty()) bytes = bytes_of_part(mesh_, bytes, type, placement);
  return hold(in_host_memory(std::move(bytes), {type.dtype, local_shape(mesh_, placement, type.shape)}), type,
              placement);
}

Tensor ShardedTensors::hold_zeros(const Type& type, const Placement& placement, bool on_host) {
  const Type local{type.dtype, local_shape(mesh_, placement, type.shape)};
  std::vector<std::byte> bytes(static_cast<size_t>(elements(local.shape)) * size_of(local.dtype));
  return hold(on_host ? in_host_memory(std::move(bytes), local) : Tensor::from_bytes(bytes, local), type, placement);
}

void ShardedTensors::move_to_host(const Tensor& tensor, const Tensor& reused) {
  if (absent_.contains(tensor)) return;
  Tensor& local = held_.at(tensor).value.local;
  if (!is_in_host_memory(local)) local = in_host_memory(local, reused);
}

Tensor ShardedTensors::hold_absent(const Type& type, const Placement& placement, MeshAxes stored) {
  Tensor handle = hold(make_input({type.dtype, local_shape(mesh_, placement, type.shape)}), type, placement, stored);
  absent_.insert(handle);
  return handle;
}

std::vector<ShardedValue> ShardedTensors::trace(const ShardedRequest& request, uint64_t* backward_from) {
  std::vector<ShardedValue> values;
  GraphSharder sharder(mesh_, request.phases, request.keeps_gathered, request.context);
  sharder.cut_sequences_along_tensor_axis(request.sequence_parallel);
  for (const auto& [tensor, held] : held_) sharder.place(tensor, held.value, held.stored);
  for (const auto& [tensor, placement] : request.cut)
    if (!held_.contains(tensor)) sharder.cut(tensor, placement);
  for (const auto& [tensor, placement] : request.preferred) sharder.prefer(tensor, placement);
  std::vector<Tensor> wanted;
  for (const ShardedRequest::Output& output : request.outputs) wanted.push_back(output.tensor);
  sharder.shard(wanted);
  for (const ShardedRequest::Output& output : request.outputs) {
    Placement placement = output.placement.value_or(replicated(output.tensor.shape().size()));
    if (output.as_computed) {
      placement = sharder.value(output.tensor).placement;
      placement.partial = {};
    }
    values.push_back(sharder.value(output.tensor, placement));
  }
  std::vector<Tensor> locals;
  for (const ShardedValue& value : values) locals.push_back(value.local);
  order_collectives(locals);
  collectives_ = sharder.collectives();
  if (backward_from) *backward_from = sharder.local_backward_from();
  return values;
}

std::vector<Tensor> ShardedTensors::evaluate(const ShardedRequest& request, StepRunner& runner) {
  const ModeScope together(mode() == Mode::kGraph ? Mode::kGraph : Mode::kLazy);
  std::vector<ShardedValue> values = trace(request);
  leave_out_other_results(values);
  // What is replaced is held as memory alone, so that its memory can be taken.
  struct Saved {
    Tensor handle;
    Type type;
    std::shared_ptr<Buffer> buffer;
  };
  std::vector<Saved> saved;
  std::unordered_map<const Buffer*, long> references;
  for (const Tensor& handle : request.replaced) {
    const auto found = held_.find(handle);
    if (found == held_.end()) continue;
    Tensor& local = found->second.value.local;
    if (is_in_host_memory(local)) continue;  // the program has a copy
    saved.push_back({handle, local.type(), buffer_of(local)});
    ++references[saved.back().buffer.get()];
    local = {};
  }
  let_go(request.consumed);
  std::vector<Tensor> locals;
  for (const ShardedValue& value : values) locals.push_back(value.local);
  try {
    runner(locals, [&](const std::shared_ptr<Buffer>& buffer) {
      const auto found = references.find(buffer.get());
      return found == references.end() ? 0L : found->second;
    });
  } catch (...) {
    for (const Saved& each : saved) held_.at(each.handle).value.local = make_input(each.type, each.buffer);
    throw;
  }
  saved.clear();
  for (const Tensor& handle : request.replaced) held_.erase(handle);
  std::vector<Tensor> results;
  for (size_t i = 0; i < values.size(); ++i) {
    const ShardedRequest::Output& output = request.outputs[i];
    if (output.placement || output.as_computed) {
      // Without the other results of its node.
      Tensor local = make_input(values[i].local.type(), buffer_of(values[i].local));
      results.push_back(hold(std::move(local), output.tensor.type(), values[i].placement, output.stored));
      continue;
    }
    results.push_back(output.tensor);
    give_value(output.tensor, values[i].local);
  }
  return results;
}

void ShardedTensors::leave_out_other_results(std::vector<ShardedValue>& values) {
  TensorSet wanted;
  for (const ShardedValue& value : values) wanted.insert(value.local);
  for (ShardedValue& value : values) {
    const std::vector<Tensor> all = outputs_of(value.local.node());
    if (std::any_of(all.begin(), all.end(), [&](const Tensor& each) { return !wanted.contains(each); }))
      value.local = make_tensor(find_operation("reshape"), {value.local}, {{"shape", value.local.shape()}});
  }
}

void give_value(const Tensor& tensor, const Tensor& value) {
  Node& node = *tensor.node();
  const bool releases = node.types.size() == 1;
  if (releases) note_released_uses(make_graph({tensor}), {&tensor, 1});  // with a value it would be an input
  node.give_storage(tensor.output(), buffer_of(value));
  if (releases) release_inputs(node);
}

Tensor ShardedTensors::gathered(const Tensor& tensor) {
  const auto found = held_.find(tensor);
  if (found == held_.end()) return tensor;
  const ModeScope together(Mode::kLazy);
  Resharder resharder(mesh_);
  const CompilerScope compiler;
  ShardedValue value = found->second.value;
  if (mesh_.size(MeshAxis::kPipeline) > 1) {  // the other stages add zeros
    if (absent_.contains(tensor)) value.local = zeros(value.local.shape(), value.local.dtype());
    value.placement.partial.add(MeshAxis::kPipeline);
  }
  const ShardedValue whole = resharder.reshard(value, replicated(tensor.shape().size()));
  return make_input(tensor.type(), buffer_of(whole.local));
}

int64_t ShardedTensors::bytes() const {
  int64_t total = 0;
  for (const auto& [tensor, held] : held_)
    if (!absent_.contains(tensor))
      total += held.value.local.size() * static_cast<int64_t>(size_of(held.value.local.dtype()));
  return total;
}

}  // namespace transom
