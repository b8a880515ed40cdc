// SPDX-License-Identifier: Apache-2.0
// Collectives as rings over the links between replicas: of n bytes a reduction and a gathering send (replicas - 1) /
// replicas each.
#include "gcl/Collectives.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"
#include "simulator/half.h"
#include "simulator/kernels.h"
#include "simulator/replicas.h"

namespace gcl {
namespace {

using namespace ipu_emulator;
using poplar::Tensor;

template <typename T>
T combined(T a, T b, CollectiveOperator op) {
  switch (op) {
    case CollectiveOperator::MUL:
      return a * b;
    case CollectiveOperator::MIN:
      return b < a || b != b ? b : a;  // NaN stays
    case CollectiveOperator::MAX:
      return b > a || b != b ? b : a;
    default:
      return a + b;
  }
}

// Numbers of the memory, and of the sums.
struct Half {
  using Sum = float;
  static float load(const char* at) {
    uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return from_half(bits);
  }
  static void store(char* at, float value) {
    const uint16_t bits = to_half(value);
    std::memcpy(at, &bits, sizeof bits);
  }
  static constexpr size_t kBytes = 2;
};
template <typename T, typename S>
struct Plain {
  using Sum = S;  // of integers without a sign, where what is over wraps
  static S load(const char* at) {
    S value;
    std::memcpy(&value, at, sizeof(T));
    return value;
  }
  static void store(char* at, S value) { std::memcpy(at, &value, sizeof(T)); }
  static constexpr size_t kBytes = sizeof(T);
};

template <typename T>
emulator_common::Combine combination_of(CollectiveOperator op) {
  return [op](const std::vector<const char*>& parts, char* out, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      typename T::Sum total = T::load(parts[0] + i * T::kBytes);
      for (size_t rank = 1; rank < parts.size(); ++rank)
        total = combined(total, T::load(parts[rank] + i * T::kBytes), op);
      if (op == CollectiveOperator::MEAN)
        total = static_cast<typename T::Sum>(total / static_cast<typename T::Sum>(parts.size()));
      T::store(out + i * T::kBytes, total);
    }
  };
}

template <typename Signed, typename Unsigned>
emulator_common::Combine combination_of_integers(CollectiveOperator op) {
  const bool wraps = op == CollectiveOperator::ADD || op == CollectiveOperator::MUL;
  return wraps ? combination_of<Plain<Unsigned, Unsigned>>(op) : combination_of<Plain<Signed, Signed>>(op);
}

emulator_common::Combine combination(poplar::Type type, CollectiveOperator op, const std::string& name) {
  switch (op) {
    case CollectiveOperator::ADD:
    case CollectiveOperator::MEAN:
    case CollectiveOperator::MUL:
    case CollectiveOperator::MIN:
    case CollectiveOperator::MAX:
      break;
    default:
      throw poplar::graph_error(name + ": expected ADD, MEAN, MUL, MIN or MAX: other operators are not emulated");
  }
  if (type == poplar::FLOAT) return combination_of<Plain<float, float>>(op);
  if (type == poplar::HALF) return combination_of<Half>(op);
  if (type == poplar::INT) return combination_of_integers<int32_t, uint32_t>(op);
  if (type == poplar::UNSIGNED_INT) return combination_of<Plain<uint32_t, uint32_t>>(op);
  if (type == poplar::LONGLONG) return combination_of_integers<int64_t, uint64_t>(op);
  throw poplar::graph_error(name + ": expected half, float, int, unsigned int or long long, found " + type.toString());
}

Replicas& joined(Memory& memory, const std::string& name) {
  if (!memory.replicas || memory.replicas->count() != memory.graph().replicas)
    throw poplar::poplar_error(name + ": expected " + std::to_string(memory.graph().replicas) +
                               " replicas that have joined, found " +
                               std::to_string(memory.replicas ? memory.replicas->count() : 1));
  return *memory.replicas;
}

uint64_t bytes_of(const Tensor& tensor) { return tensor.numElements() * size_of(tensor.elementType()); }

// Of a ring: each replica sends all but its own part.
uint64_t ring_bytes(uint64_t bytes, uint64_t replicas) { return bytes * (replicas - 1) / replicas; }

Tensor copied(poplar::Graph& graph, const Tensor& data, poplar::program::Sequence& prog, const std::string& name) {
  const Tensor made = variable_like(graph, data.elementType(), data, name);
  prog.add(poplar::program::Copy(data, made, false, name));
  return made;
}

std::string name_of(const char* call, const poplar::DebugContext& context) {
  const std::string path = context.getPathName();
  return path.empty() ? call : path + "/" + call;
}

CollectiveOperator operator_of(Reader& parameters) {
  return static_cast<CollectiveOperator>(parameters.number(127));  // `combination` refuses what is none
}

// Parts of a collective that are `times` as many as `few`.
void expect_parts(const Tensor& few, const Tensor& many, size_t times) {
  Reader::expect(few.elementType() == many.elementType() && few.numElements() > 0 &&
                     many.numElements() / few.numElements() == times && many.numElements() % few.numElements() == 0,
                 "one part of a tensor for each replica");
}

const RegisterKernel kAllReduceKernel(
    "gcl::allReduce", [](const Step& step, Reader& parameters) -> std::function<void(Memory&)> {
      expect_tensors(step, 0, 0, 1);
      const Tensor data = step.updates[0];
      const std::string name = step.name;
      const auto combine = combination(data.elementType(), operator_of(parameters), name);
      return [=](Memory& memory) {
        const Access access(memory, data, true, true);
        joined(memory, name).all_reduce(access.data(), data.numElements(), data.elementType(), combine);
      };
    });

const RegisterKernel kReduceScatterKernel(
    "gcl::reduceScatter", [](const Step& step, Reader& parameters) -> std::function<void(Memory&)> {
      expect_tensors(step, 1, 1);
      const Tensor data = step.reads[0], made = step.writes[0];
      const std::string name = step.name;
      expect_parts(made, data, data.view().graph.lock()->replicas);
      const auto combine = combination(data.elementType(), operator_of(parameters), name);
      return [=](Memory& memory) {
        const Access from(memory, data, true, false), to(memory, made, false, true);
        joined(memory, name).reduce_scatter(from.data(), to.data(), made.numElements(), made.elementType(), combine);
      };
    });

const RegisterKernel kAllGatherKernel("gcl::allGather", [](const Step& step, Reader&) -> std::function<void(Memory&)> {
  expect_tensors(step, 1, 1);
  const Tensor data = step.reads[0], made = step.writes[0];
  const std::string name = step.name;
  expect_parts(data, made, data.view().graph.lock()->replicas);
  return [=](Memory& memory) {
    const Access from(memory, data, true, false), to(memory, made, false, true);
    joined(memory, name).all_gather(from.data(), to.data(), bytes_of(data));
  };
});

}  // namespace

void allReduceInPlaceCrossReplica(poplar::Graph& graph, Tensor& data, CollectiveOperator op,
                                  poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                                  const poplar::OptionFlags&) {
  const std::string name = name_of("allReduceInPlaceCrossReplica", debugContext);
  const uint64_t replicas = graph.getReplicationFactor();
  combination(data.elementType(), op, name);
  if (replicas == 1 || data.numElements() == 0) return;
  Operation operation;
  operation.name = name;
  operation.codelet = "gcl::allReduce";
  operation.updates = {data};
  operation.replica_bytes = 2 * ring_bytes(bytes_of(data), replicas);
  operation.cycles = [replicas](uint64_t elements) { return elements * (replicas - 1) / replicas / 2; };
  operation.kernel = "gcl::allReduce";
  operation.parameters = std::string(1, static_cast<char>(op));
  add_operation(graph, prog, std::move(operation));
}

Tensor allReduceCrossReplica(poplar::Graph& graph, const Tensor& data, CollectiveOperator op,
                             poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                             const poplar::OptionFlags& options) {
  Tensor made = copied(graph, data, prog, name_of("allReduceCrossReplica", debugContext));
  allReduceInPlaceCrossReplica(graph, made, op, prog, debugContext, options);
  return made;
}

Tensor reduceScatterCrossReplica(poplar::Graph& graph, const Tensor& data, CollectiveOperator op,
                                 poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                                 const poplar::OptionFlags&) {
  const std::string name = name_of("reduceScatterCrossReplica", debugContext);
  const uint64_t replicas = graph.getReplicationFactor();
  combination(data.elementType(), op, name);
  if (data.rank() != 1 || data.numElements() % replicas != 0)
    throw poplar::graph_error(name + ": expected a vector of a multiple of " + std::to_string(replicas) +
                              " elements, one part for each replica, found " + data.shapeToString());
  if (replicas == 1) return copied(graph, data, prog, name);
  const Tensor made = graph.addVariable(data.elementType(), {data.numElements() / replicas}, name);
  if (made.numElements() == 0) return made;
  poputil::mapTensorLinearly(graph, made);
  Operation operation;
  operation.name = name;
  operation.codelet = "gcl::reduceScatter";
  operation.reads = {data};
  operation.writes = {made};
  operation.replica_bytes = ring_bytes(bytes_of(data), replicas);
  operation.cycles = [replicas](uint64_t elements) { return elements * (replicas - 1) / 2; };
  operation.kernel = "gcl::reduceScatter";
  operation.parameters = std::string(1, static_cast<char>(op));
  add_operation(graph, prog, std::move(operation));
  return made;
}

Tensor allGatherCrossReplica(poplar::Graph& graph, const Tensor& data, poplar::program::Sequence& prog,
                             const poplar::DebugContext& debugContext, const poplar::OptionFlags&) {
  const std::string name = name_of("allGatherCrossReplica", debugContext);
  const uint64_t replicas = graph.getReplicationFactor();
  if (replicas == 1) return copied(graph, data, prog, name).expand({0});
  std::vector<size_t> shape = data.shape();
  shape.insert(shape.begin(), replicas);
  const Tensor made = graph.addVariable(data.elementType(), shape, name);
  if (made.numElements() == 0) return made;
  poputil::mapTensorLinearly(graph, made);
  Operation operation;
  operation.name = name;
  operation.codelet = "gcl::allGather";
  operation.reads = {data};
  operation.writes = {made};
  operation.replica_bytes = ring_bytes(bytes_of(made), replicas);
  operation.cycles = [](uint64_t elements) { return elements / 2; };
  operation.kernel = "gcl::allGather";
  add_operation(graph, prog, std::move(operation));
  return made;
}

}  // namespace gcl
