// SPDX-License-Identifier: Apache-2.0
// Variables, where their elements lie, and the vertices that compute with them. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "poplar/DataStream.hpp"
#include "poplar/DebugContext.hpp"
#include "poplar/Interval.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/Program.hpp"
#include "poplar/Target.hpp"
#include "poplar/Tensor.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

class VertexRef;

// A field of a vertex, by name.
class FieldRef {
 public:
  FieldRef(unsigned vertex, std::string name) : vertex_(vertex), name_(std::move(name)) {}
  unsigned vertex() const { return vertex_; }
  const std::string& name() const { return name_; }

 private:
  unsigned vertex_;
  std::string name_;
};

class VertexRef {
 public:
  explicit VertexRef(unsigned id) : id_(id) {}
  unsigned id() const { return id_; }
  FieldRef operator[](const std::string& field) const { return {id_, field}; }

 private:
  unsigned id_;
};

// Of a program that several replicas of the machine run, each with data of its own.
struct replication_factor {
  explicit replication_factor(unsigned value) : value(value) {}
  unsigned value;
};

class Graph {
 public:
  using TileToTensorMapping = std::vector<std::vector<Interval>>;  // by tile, intervals of the flattened tensor

  explicit Graph(const Target& target, replication_factor replicas = replication_factor(1));
  unsigned getReplicationFactor() const;
  // Of a virtual graph: one with its tiles.
  const Target& getTarget() const { return target_; }

  // A graph of the tiles [begin, end) of this one: its tile 0 is `begin`. Variables are those of this one.
  Graph createVirtualGraph(unsigned begin, unsigned end) const;

  Tensor addVariable(const Type& type, const std::vector<size_t>& shape, const DebugContext& debugContext = {});
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Tensor addConstant(const Type& type, const std::vector<size_t>& shape, T value,
                     const DebugContext& debugContext = {}) {
    return add_constant(type, shape, static_cast<double>(value), static_cast<int64_t>(value), debugContext);
  }
  template <typename T>
  Tensor addConstant(const Type& type, const std::vector<size_t>& shape, const T* values,
                     const DebugContext& debugContext = {}) {
    return add_constant_bytes(type, shape, values, sizeof(T), debugContext);
  }

  void setTileMapping(const Tensor& tensor, unsigned tile);
  void setTileMapping(const Tensor& tensor, const TileToTensorMapping& mapping);
  void setTileMapping(const VertexRef& vertex, unsigned tile);
  TileToTensorMapping getTileMapping(const Tensor& tensor) const;

  // Codelets of a file: those that it registered (poplar/Vertex.hpp). Refuses one that registered none.
  void addCodelets(const std::string& file);
  ComputeSet addComputeSet(const DebugContext& debugContext = {});
  VertexRef addVertex(const ComputeSet& cs, const std::string& codelet);
  void connect(const FieldRef& field, const Tensor& tensor);
  template <typename T>
  void setInitialValue(const FieldRef& field, T value) {
    set_initial_value(field, static_cast<double>(value), static_cast<int64_t>(value));
  }
  void setPerfEstimate(const VertexRef& vertex, uint64_t cycles);

  // For each run of the program that reads it, the host gives that many elements.
  DataStream addHostToDeviceFIFO(const std::string& handle, const Type& type, size_t elements);
  DataStream addDeviceToHostFIFO(const std::string& handle, const Type& type, size_t elements);
  // Memory beside the machine that the host reads and writes through the engine; zeros at first.
  RemoteBuffer addRemoteBuffer(const std::string& handle, const Type& elementType, size_t numElements,
                               size_t repeats = 1, bool rearrangeOnHost = false, bool optimiseMemory = false);

  const std::shared_ptr<ipu_emulator::GraphState>& state() const { return state_; }
  unsigned firstTile() const { return first_tile_; }
  unsigned tiles() const { return tiles_; }

 private:
  Graph() = default;
  Tensor add_constant(const Type&, const std::vector<size_t>&, double real, int64_t integer, const DebugContext&);
  Tensor add_constant_bytes(const Type&, const std::vector<size_t>&, const void* values, size_t size,
                            const DebugContext&);
  void set_initial_value(const FieldRef&, double real, int64_t integer);

  std::shared_ptr<ipu_emulator::GraphState> state_;
  Target target_;
  unsigned first_tile_ = 0, tiles_ = 0;
};

}  // namespace poplar
