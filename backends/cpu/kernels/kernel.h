// SPDX-License-Identifier: Apache-2.0
// What compile() makes of a node: a Kernel, prepared for the node's shapes. Each family of operations is one file with
// one add_..._kernels function; kernel_table() is the list of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpu/device/types.h"
#include "cpu/products/epilogue.h"
#include "transom/plugin/node.h"

namespace transom::cpu {

// A node and its place in the graph, which must outlive it.
class Node : public backend::Node {
 public:
  Node(const transom_graph& graph, const transom_node& node) : backend::Node(graph, node), graph_(graph), node_(node) {}

  const transom_graph* region() const { return node_.region; }
  const transom_node& source() const { return node_; }
  const transom_graph& graph() const { return graph_; }
  bool frozen(size_t input) const;  // an input of the graph whose contents never change

  // A frozen input, or the frozen input whose cast to another floating-point type this input is.
  struct Origin {
    int32_t value;
    transom_dtype dtype;
  };
  std::optional<Origin> frozen_origin(size_t input) const;

 private:
  bool is_frozen(int32_t value) const;

  const transom_graph& graph_;
  const transom_node& node_;
};

struct TileProgram;

// What a kernel works on in one run.
struct Arguments {
  std::byte* const* inputs;
  std::byte* const* outputs;
  transom_buffer* const* input_buffers;  // null where the input is not a frozen input of the graph
  const size_t* input_offsets;           // of the inputs in those buffers
  std::byte* scratch;                    // Kernel::scratch_bytes
  const ChunkReader* reader = nullptr;   // where Kernel::has_epilogue: gets every chunk of output 0 once it is written

  template <typename T>
  const T* input(size_t i) const {
    return reinterpret_cast<const T*>(inputs[i]);
  }
  template <typename T>
  T* output(size_t i = 0) const {
    return reinterpret_cast<T*>(outputs[i]);
  }
};

struct Kernel {
  std::string name;  // what runs, for profiles and `explain`
  std::function<void(const Arguments&)> run;
  size_t scratch_bytes = 0;
  // Inputs that the kernel takes from another value than the node does: a weight from before its cast.
  std::vector<std::pair<size_t, int32_t>> instead = {};
  bool has_epilogue = false;
  std::shared_ptr<const TileProgram> tiles = nullptr;  // what `run` runs, if it is a fusion
  std::function<std::string()> source = {};            // of generated code, for `explain`
};

using KernelMaker = Kernel (*)(const Node&);
// Whether a composite operation with these inputs and attributes is taken whole.
using Claims = bool (*)(std::span<const transom_value> inputs, std::span<const transom_attribute> attributes);

struct KernelEntry {
  KernelEntry() = default;
  KernelEntry(KernelMaker maker, Claims composite = nullptr) : make(maker), claims(composite) {}
  KernelMaker make = nullptr;
  Claims claims = nullptr;  // null: of a primitive, or of a composite that is computed by its decomposition
};
using KernelTable = std::unordered_map<std::string_view, KernelEntry>;

const KernelTable& kernel_table();

// Claims that several kernels share.
bool claims_always(std::span<const transom_value> inputs, std::span<const transom_attribute> attributes);
// Inputs of one type, f32, bf16 or f16.
bool claims_equal_floats(std::span<const transom_value> inputs, std::span<const transom_attribute> attributes);
// One input, of f32.
bool claims_one_f32(std::span<const transom_value> inputs, std::span<const transom_attribute> attributes);

void add_elementwise_kernels(KernelTable& table);
void add_movement_kernels(KernelTable& table);
void add_generator_kernels(KernelTable& table);
void add_indexing_kernels(KernelTable& table);
void add_embedding_bag_kernels(KernelTable& table);
void add_reduction_kernels(KernelTable& table);
void add_ordering_kernels(KernelTable& table);
void add_assignment_kernels(KernelTable& table);
void add_row_fusion_kernels(KernelTable& table);
void add_softmax_kernels(KernelTable& table);
void add_layer_norm_kernels(KernelTable& table);
void add_product_kernels(KernelTable& table);
void add_attention_kernels(KernelTable& table);
void add_attention_gradient_kernels(KernelTable& table);
void add_quantized_kernels(KernelTable& table);
void add_convolution_kernels(KernelTable& table);
void add_pooling_kernels(KernelTable& table);

}  // namespace transom::cpu
