// SPDX-License-Identifier: Apache-2.0
// Which GUIDs exist.
#include <algorithm>
#include <map>

#include "../configuration.h"
#include "kernel.h"

namespace synapse_emulator {

const Types kFloats = {syn_type_single, syn_type_bf16, syn_type_fp16};
const Types kIntegers = {syn_type_int8,  syn_type_uint8,  syn_type_int16, syn_type_uint16,
                         syn_type_int32, syn_type_uint32, syn_type_int64};
const Types kNumbers = {syn_type_single, syn_type_bf16,   syn_type_fp16,  syn_type_int8,   syn_type_uint8,
                        syn_type_int16,  syn_type_uint16, syn_type_int32, syn_type_uint32, syn_type_int64};
const Types kNoSuffix;

namespace {

const synDataType kAllTypes[] = {syn_type_int8,   syn_type_bf16,  syn_type_single,  syn_type_int16,
                                 syn_type_int32,  syn_type_uint8, syn_type_fp16,    syn_type_uint16,
                                 syn_type_uint32, syn_type_int64, syn_type_fp8_143, syn_type_fp8_152};

struct Table {
  std::map<std::string, Kernel, std::less<>> kernels;
  Table() {
    KernelTable list;
    add_elementwise(list);
    add_binary(list);
    add_casts(list);
    add_movement(list);
    add_slices(list);
    add_products(list);
    add_convolutions(list);
    add_reductions(list);
    add_softmax(list);
    add_norms(list);
    add_activations(list);
    add_indexing(list);
    add_ordering(list);
    add_attention(list);
    add_losses(list);
    add_generators(list);
    add_pooling(list);
    for (Kernel& kernel : list.kernels) {
      std::string name = kernel.name;
      kernels.emplace(std::move(name), std::move(kernel));
    }
  }
};

const Table& table() {
  static const Table& result = *new Table;  // lives as long as the process
  return result;
}

bool exists_here(synDataType type) {
  const Generation& generation = configuration().generation;
  if (type == syn_type_fp16) return generation.has_f16;
  if (type == syn_type_fp8_143 || type == syn_type_fp8_152) return generation.mme_fp8_flops > 0;
  if (type == syn_type_int64) return generation.has_int64;
  return true;
}

}  // namespace

const Kernel* find_kernel(std::string_view guid, synDataType& type, std::string& why) {
  type = syn_type_na;
  if (const auto own = table().kernels.find(guid); own != table().kernels.end() && own->second.types.empty())
    return &own->second;
  const size_t line = guid.rfind('_');
  if (line != std::string_view::npos) {
    const auto suffix = std::find_if(std::begin(kAllTypes), std::end(kAllTypes),
                                     [&](synDataType known) { return guid.substr(line + 1) == name_of(known); });
    const auto found = table().kernels.find(guid.substr(0, line));
    if (suffix != std::end(kAllTypes) && found != table().kernels.end()) {
      const Types& types = found->second.types;
      if (std::find(types.begin(), types.end(), *suffix) == types.end()) {
        why = join("no kernel ", found->first, " for ", name_of(*suffix));
        return nullptr;
      }
      if (!exists_here(*suffix)) {
        why = join(configuration().generation.name, " has no ", name_of(*suffix));
        return nullptr;
      }
      type = *suffix;
      return &found->second;
    }
  }
  why = "no node or kernel has the GUID " + std::string(guid.substr(0, 80));
  return nullptr;
}

std::vector<std::string> known_guids() {
  std::vector<std::string> result;
  for (const auto& [name, kernel] : table().kernels) {
    if (kernel.types.empty()) result.push_back(name);
    for (const synDataType type : kernel.types)
      if (exists_here(type)) result.push_back(name + "_" + name_of(type));
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::string text_of(const Sizes& sizes) {
  std::string result = "[";
  for (int dim = 0; dim < sizes.rank; ++dim) result += (dim ? ", " : "") + std::to_string(sizes[dim]);
  return result + "]";
}

bool countable(const Sizes& sizes) {
  constexpr int64_t kMost = int64_t{1} << 46;
  int64_t count = 1;
  for (int dim = 0; dim < sizes.rank; ++dim) {
    const int64_t size = std::max<int64_t>(sizes[dim], 1);
    if (sizes[dim] < 0 || size > kMost / count) return false;
    count *= size;
  }
  return true;
}

void require_counts(const Node& node, size_t least_in, size_t most_in, size_t least_out, size_t most_out) {
  require(node.in.size() >= least_in && node.in.size() <= most_in, node, node.in.size(), " inputs, expected ", least_in,
          " to ", most_in);
  require(node.out.size() >= least_out && node.out.size() <= most_out, node, node.out.size(), " outputs, expected ",
          least_out, " to ", most_out);
  for (size_t i = 0; i < least_in; ++i) require(node.in[i].present, node, "input ", i, " is missing");
  for (size_t i = 0; i < least_out; ++i) require(node.out[i].present, node, "output ", i, " is missing");
}

void require_type(const Node& node, const Operand& operand, synDataType type, const char* what) {
  require(operand.type == type, node, what, " has type ", name_of(operand.type), ", expected ", name_of(type));
}

void require_sizes(const Node& node, const Operand& operand, const Sizes& sizes, const char* what) {
  require(operand.sizes == sizes, node, what, " has sizes ", text_of(operand.sizes), ", expected ", text_of(sizes));
}

void require_no_params(const Node& node) {
  require(node.params.empty(), node, "takes no params, found ", node.params.size(), " bytes");
}

}  // namespace synapse_emulator
