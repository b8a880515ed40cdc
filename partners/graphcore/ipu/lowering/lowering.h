// SPDX-License-Identifier: Apache-2.0
// From a graph to a Poplar graph and one program: inputs come over streams, nodes compute, outputs leave over streams.
#pragma once

#include <map>
#include <optional>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <span>
#include <string>
#include <vector>

#include "ipu/lowering/block_sparse.h"
#include "transom/plugin/node.h"

namespace transom::ipu {

using backend::Node;
using backend::Shape;
using backend::Type;
using poplar::Tensor;

// Refuses bf16 and f64, which the machine has not.
poplar::Type device_type(transom_dtype dtype);
std::vector<size_t> extents_of(const Shape& shape);

class Lowering;

inline constexpr const char* kRoundingSeed = "rounding_seed";  // a stream of programs that round stochastically

// One node on its way.
struct Work {
  const Node& node;
  std::vector<Tensor> inputs, outputs;    // outputs: what the function sets
  const transom_graph* region = nullptr;  // of "fusion"
  size_t vocabulary = 0;                  // rows of the table of embeddings that it reads or gives; 0: of none
  const BlockMask* blocks = nullptr;      // of "linear": input 1 has these alone, [count, elements of a block]
};

class Lowering {
 public:
  explicit Lowering(const poplar::Target& target);

  // What is added from now on lies on this IPU.
  void choose_ipu(uint32_t ipu);

  // The value comes over the stream "input<i>"; it has one where it has elements. Returns the program that fetches it,
  // which runs where the value is not on the tiles yet.
  poplar::program::Sequence add_input(int32_t value, const Type& type, size_t i);
  // Of a weight of "linear" nodes: it comes as its blocks, one after the other.
  poplar::program::Sequence add_blocks(int32_t value, const Type& type, const BlockMask& mask, size_t i);
  // The value lies in streaming memory, in the remote buffer "input<i>": it is loaded where it is read first. Nothing
  // fetches it, so that the program that comes back is empty.
  poplar::program::Sequence add_streamed_input(int32_t value, const Type& type, size_t i);
  // From here on what becomes half is rounded by noise, whose seed comes over the stream "rounding_seed".
  void round_stochastically();
  // The value is the table of embeddings [vocabulary, width]: products with it may come in parts.
  void set_table(int32_t value, const Type& type) { table_ = value, table_shape_ = type.shape; }
  void lower(const Node& node, const transom_node& c_node);
  // The value leaves over the stream "output<i>".
  void add_output(int32_t value, const Type& type, size_t i);
  // The value is stored now, in the remote buffer "output<i>".
  void add_streamed_output(int32_t value, const Type& type, size_t i);

  poplar::Graph& graph() { return ipus_[ipu_]; }
  poplar::Graph& whole_graph() { return graph_; }
  poplar::OptionFlags product_options() const;  // of poplin
  poplar::program::Sequence& program() { return program_; }

  // ---- for the functions that lower a kind of nodes

  // A variable that is spread evenly; what lies on one tile is a multiple of `grain` elements.
  Tensor variable(poplar::Type type, const std::vector<size_t>& shape, const std::string& name, size_t grain = 1);
  Tensor constant(poplar::Type type, double value);  // of one element, shape {}
  void fill(const Tensor& tensor, double real, int64_t integer, const std::string& name);
  void copy(const Tensor& from, const Tensor& to, const std::string& name);
  // The tensor in a variable of its own, in order: what is a view of many short rows is moved once.
  Tensor dense(const Tensor& tensor, const std::string& name, size_t grain = 1);
  Tensor cast(const Tensor& tensor, poplar::Type type, const std::string& name);
  // Views; reshape moves what would become a list of places.
  Tensor reshaped(const Tensor& tensor, const std::vector<size_t>& shape, const std::string& name);
  static Tensor broadcast(Tensor tensor, const std::vector<size_t>& shape);

 private:
  // A value lies on the IPU that computed it; one that another IPU reads comes over a link once.
  struct Value {
    Tensor tensor;
    uint32_t ipu = 0;
    std::map<uint32_t, Tensor> elsewhere;
    std::optional<poplar::RemoteBuffer> remote;  // where it is to be loaded from, before it is on the tiles
  };
  Value& value(int32_t index);
  void load(Value& value, const Type& type);
  // The value on its tiles; refuses one that no node has computed.
  const Tensor& leaving(int32_t index);
  Tensor here(Value& value, const std::string& name);

  poplar::Graph graph_;
  std::vector<poplar::Graph> ipus_;  // virtual graphs of one IPU each
  uint32_t ipu_ = 0;
  std::vector<unsigned> next_tile_;  // of each IPU, for what needs few tiles
  poplar::program::Sequence program_;
  std::vector<Value> values_;
  std::map<int32_t, const BlockMask*> blocks_;  // of values that come as their blocks
  int32_t table_ = -1;
  Shape table_shape_;
};

// Whether a composite is run whole, see transom_plugin.claims.
bool claims_composite(std::string_view op, std::span<const transom_value> inputs,
                      std::span<const transom_attribute> attributes);
// Whether the one node of a graph is run, see transom_plugin.supports.
bool supports_node(const poplar::Target& target, const transom_graph& graph);

// ---- by kind; each throws Failure(TRANSOM_UNSUPPORTED) for what the machine does not do

// By the operation's name.
void lower_whole(Lowering& lowering, Work& work);
bool is_elementwise(const Node& node);
void lower_elementwise(Lowering& lowering, Work& work);
void lower_fusion(Lowering& lowering, Work& work);
void lower_movement(Lowering& lowering, Work& work);
void lower_constant(Lowering& lowering, Work& work);  // constant, iota
void lower_reduction(Lowering& lowering, Work& work);
void lower_lines(Lowering& lowering, Work& work);  // arg_max, arg_min, cumulative_sum, sort, top_k
void lower_integer_power(Lowering& lowering, Work& work);
void lower_random(Lowering& lowering, Work& work);
void lower_gather(Lowering& lowering, Work& work);
void lower_scatter(Lowering& lowering, Work& work);
void lower_dynamic_slice(Lowering& lowering, Work& work);  // and dynamic_update_slice
void lower_product(Lowering& lowering, Work& work);        // dot_general, linear
void lower_convolution(Lowering& lowering, Work& work);    // and its gradients
void lower_rows(Lowering& lowering, Work& work);           // softmax, norms, their gradients

}  // namespace transom::ipu
