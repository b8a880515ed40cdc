// SPDX-License-Identifier: Apache-2.0
// What a graph holds before it is compiled: variables with their places, vertices, compute sets and program steps.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "poplar/Graph.hpp"
#include "poplar/Vertex.hpp"

namespace ipu_emulator {

using poplar::Type;

size_t size_of(Type type);

// Whether programs are clocked alone: TRANSOM_EMULATED_IPU ends with ":clocks". Values are zeros then.
bool clocks_alone();

// Elements [begin, end) of a variable, and the tile that holds them.
struct Run {
  uint64_t begin, end;
  uint32_t tile;
  bool repeated = false;  // of a tensor's layout: one element, shown many times by a broadcast
};
constexpr uint32_t kNoTile = UINT32_MAX;

struct Variable {
  std::string name;
  Type type;
  uint64_t elements;
  std::shared_ptr<const std::vector<Run>> runs;  // sorted, without overlap; variables of one layout share them
  std::vector<std::byte> constant;               // of constants: the value; else empty
  bool spread_values = false;                    // `constant` has one element for all
  uint64_t bytes() const { return elements * size_of(type); }
};

struct Vertex {
  const Codelet* codelet;
  uint32_t tile = kNoTile;
  uint64_t cycles = 0;  // setPerfEstimate; 0: estimated from the fields
  std::map<std::string, poplar::Tensor> tensors;
  struct Value {
    double real;
    int64_t integer;
  };
  std::map<std::string, Value> values;
};

class Memory;
class Replicas;

// What a step costs one tile.
struct TileWork {
  uint32_t tile;
  uint64_t cycles = 0;     // of compute
  uint64_t received = 0;   // bytes by exchange before it
  uint64_t temporary = 0;  // bytes while it runs
  uint32_t vertices = 0;

  // Bytes beside variables. What is received is among the temporaries of products and reductions; others use it in
  // parts.
  uint64_t while_running() const { return std::max(temporary, std::min<uint64_t>(received, 65536)); }
};

struct Step {
  enum class Kind {
    kSequence,
    kOperation,
    kExecute,
    kCopy,
    kStreamIn,
    kStreamOut,
    kRemoteIn,
    kRemoteOut,
    kRepeat,
    kUndef
  };
  Kind kind;
  std::string name;
  std::vector<std::shared_ptr<Step>> children;  // of sequences and repeats
  uint64_t times = 1;
  unsigned compute_set = 0;
  std::string handle;                         // of streams and remote buffers
  std::vector<poplar::Tensor> reads, writes;  // of operations and copies
  std::vector<poplar::Tensor> updates;        // read and written
  std::string codelet;                        // of operations
  std::vector<TileWork> work;                 // of operations
  std::string kernel, parameters;             // of operations and copies: what they compute, see kernels.h
  std::function<void(Memory&)> run;           // of the kernel, once the program is compiled
  uint64_t flops = 0;
  uint64_t replica_bytes = 0;  // that each replica sends to another one over links
};

struct GraphState : std::enable_shared_from_this<GraphState> {
  poplar::Target target;
  std::vector<Variable> variables;
  std::vector<Vertex> vertices;
  struct Set {
    std::string name;
    std::vector<uint32_t> vertices;
  };
  std::vector<Set> compute_sets;
  std::map<std::string, poplar::DataStream> streams;
  std::map<std::string, poplar::RemoteBuffer> remote_buffers;
  unsigned replicas = 1;
  std::map<std::string, bool> libraries;  // whose codelets were added
  // Linear layouts by elements, elements a tile, first tile, tiles, offset and direction: variables of one layout share
  // it.
  std::map<std::tuple<uint64_t, uint64_t, uint32_t, uint32_t, uint32_t, bool>, std::shared_ptr<const std::vector<Run>>>
      linear;
};

// The values of all variables while programs run. A variable takes memory of this process when it is first touched.
class Memory {
 public:
  explicit Memory(std::shared_ptr<const GraphState> graph);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* of(uint32_t variable);
  void release(uint32_t variable);
  const GraphState& graph() const { return *graph_; }
  bool stochastic_rounding = false;    // of what becomes half, see rounding.h
  uint64_t seed = 0x9e3779b97f4a7c15;  // of its noise
  uint64_t draws = 0;                  // operations that had some since the seed was set
  std::shared_ptr<Replicas> replicas;  // null: there is no other one, or nobody joined them

 private:
  std::shared_ptr<const GraphState> graph_;
  std::vector<std::byte*> bytes_;
};

// Calls body(place in the flattened tensor, variable, element, elements, step) for runs of elements along the last
// axis.
void for_each_row(
    const View& view,
    const std::function<void(uint64_t first, uint32_t variable, uint64_t element, uint64_t count, int64_t step)>& body);

// All elements in order; `to` has room for them, in the type of the tensor.
void read_tensor(Memory& memory, const poplar::Tensor& tensor, void* to);
void write_tensor(Memory& memory, const poplar::Tensor& tensor, const void* from);

// The tensor's own memory where it is contiguous, else a copy of it; written back at the end where asked for.
class Access {
 public:
  Access(Memory& memory, const poplar::Tensor& tensor, bool reads, bool writes);
  ~Access() noexcept(false);
  Access(const Access&) = delete;
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  void* data() const { return data_; }

 private:
  Memory& memory_;
  const poplar::Tensor& tensor_;
  bool writes_;
  std::unique_ptr<std::byte[]> copy_;
  void* data_;
};

// Which tile holds what of the flattened tensor: runs in order. Tensors whose rows are short and many give up
// exactness: one run with the tile of the first element (`exact` false).
struct Layout {
  std::vector<Run> runs;
  bool exact = true;
};
Layout layout_of(const poplar::Tensor& tensor);

// Adds an operation of a library to a program.
struct Operation {
  std::string name, codelet;
  std::vector<poplar::Tensor> reads, writes, updates;
  std::string kernel, parameters;  // see kernels.h
  // Cycles of `elements` of the result on one worker's tile, all six workers busy.
  std::function<uint64_t(uint64_t elements)> cycles;
  uint64_t temporary_per_element = 0;
  uint64_t flops = 0;
  uint64_t replica_bytes = 0;
};
// Work lies where the first written (or updated) tensor lies; what is read comes there, one to one where the shapes
// agree.
void add_operation(poplar::Graph& graph, poplar::program::Sequence& program, Operation operation);
void add_step(poplar::program::Sequence& program, std::shared_ptr<Step> step);

// A new variable that lies as `like`.
poplar::Tensor variable_like(poplar::Graph& graph, Type type, const poplar::Tensor& like, const std::string& name);

}  // namespace ipu_emulator
