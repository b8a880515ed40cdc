// SPDX-License-Identifier: Apache-2.0
// Kernels: what runs a node. A kernel checks the operands of a node and computes it in the number formats of the card.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "../call.h"
#include "../clock.h"
#include "../params.h"
#include "../synapse_interface.h"

namespace synapse_emulator {

inline constexpr int kMostDims = 8;        // of any tensor
inline constexpr int kMostKernelDims = 5;  // of what TPC and MME kernels take

// Sizes, fastest changing first.
struct Sizes {
  int rank = 0;
  std::array<int64_t, kMostDims> size{};

  int64_t operator[](int dim) const { return dim < rank ? size[static_cast<size_t>(dim)] : 1; }
  int64_t elements() const {
    int64_t count = 1;
    for (int dim = 0; dim < rank; ++dim) count *= size[static_cast<size_t>(dim)];
    return count;
  }
  bool operator==(const Sizes& other) const {
    if (rank != other.rank) return false;
    for (int dim = 0; dim < rank; ++dim)
      if ((*this)[dim] != other[dim]) return false;
    return true;
  }
};
std::string text_of(const Sizes& sizes);  // "[4, 2]"
// Whether products of any of the sizes are numbers that the emulator counts with: empty dims hide no large ones.
bool countable(const Sizes& sizes);

int64_t size_of(synDataType type);      // bytes; 0 for what is no element type here
const char* name_of(synDataType type);  // its suffix in GUIDs
bool is_floating(synDataType type);

// A dense tensor.
struct Operand {
  char* data = nullptr;
  synDataType type = syn_type_na;
  synTensorType kind = DATA_TENSOR;
  Sizes sizes;
  bool present = false;  // optional operands may be missing

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  int64_t elements() const { return sizes.elements(); }
  int64_t bytes() const { return elements() * size_of(type); }
};

struct Node {
  std::string guid;                // without suffix
  synDataType type = syn_type_na;  // of the suffix; none for the compiler's own nodes
  std::vector<Operand> in, out;
  std::vector<char> params;
  int rounding = 0;

  const Operand& input(size_t i) const { return i < in.size() ? in[i] : missing(); }
  const Operand& output(size_t i) const { return i < out.size() ? out[i] : missing(); }
  bool has_input(size_t i) const { return input(i).present; }
  bool has_output(size_t i) const { return output(i).present; }

 private:
  static const Operand& missing() {
    static const Operand none;
    return none;
  }
};

struct Kernel {
  std::string name;  // without suffix
  Engine engine = Engine::kTpc;
  std::vector<synDataType> types;  // suffixes; empty: a node of the compiler, without suffix
  void (*check)(const Node&) = nullptr;
  void (*run)(const Node&) = nullptr;
  double (*flops)(const Node&) = nullptr;  // null: one for each element
  bool in_place = false;                   // an output may lie exactly on an input of its sizes
  size_t reads = SIZE_MAX;                 // inputs from this one on may be shape tensors, which have sizes and no data
};

// Null if `guid` is unknown, or unknown for its suffix or on this generation; `type` is the suffix, `why` the reason.
const Kernel* find_kernel(std::string_view guid, synDataType& type, std::string& why);
// All GUIDs, sorted: for documentation and tests.
std::vector<std::string> known_guids();

class KernelTable;
void add_elementwise(KernelTable&);
void add_binary(KernelTable&);
void add_casts(KernelTable&);
void add_movement(KernelTable&);
void add_slices(KernelTable&);
void add_products(KernelTable&);
void add_convolutions(KernelTable&);
void add_reductions(KernelTable&);
void add_softmax(KernelTable&);
void add_norms(KernelTable&);
void add_activations(KernelTable&);
void add_indexing(KernelTable&);
void add_ordering(KernelTable&);
void add_attention(KernelTable&);
void add_losses(KernelTable&);
void add_generators(KernelTable&);
void add_pooling(KernelTable&);

// ---- for kernels
class KernelTable {
 public:
  void add(Kernel kernel) { kernels.push_back(std::move(kernel)); }
  std::vector<Kernel> kernels;
};

using Types = std::vector<synDataType>;
extern const Types kFloats;    // f32 bf16 f16
extern const Types kIntegers;  // i8 u8 i16 u16 i32 u32 i64
extern const Types kNumbers;   // both
extern const Types kNoSuffix;

// Throws a Violation "operands" with the node's GUID before the text.
template <typename... Parts>
void require(bool condition, const Node& node, const Parts&... parts) {
  if (!condition)
    throw Violation{synFail, "operands",
                    join(node.guid, node.type == syn_type_na ? "" : "_",
                         node.type == syn_type_na ? "" : name_of(node.type), ": ", parts...)};
}
// So many operands, none of the first `required` missing.
void require_counts(const Node& node, size_t least_in, size_t most_in, size_t least_out, size_t most_out);
void require_type(const Node& node, const Operand& operand, synDataType type, const char* what);
void require_sizes(const Node& node, const Operand& operand, const Sizes& sizes, const char* what);
void require_no_params(const Node& node);

// The params as P. Accepts each of `sizes` (the versions of the struct; sizeof(P) if none are given); what is missing
// is 0.
template <typename P>
P params_of(const Node& node, std::initializer_list<size_t> sizes = {}) {
  bool fits = node.params.size() == sizeof(P) && sizes.size() == 0;
  for (const size_t size : sizes) fits = fits || node.params.size() == size;
  require(fits, node, "params of ", node.params.size(), " bytes; the struct has ", sizeof(P));
  P params{};
  if (!node.params.empty()) std::memcpy(&params, node.params.data(), std::min(sizeof(P), node.params.size()));
  return params;
}

}  // namespace synapse_emulator
