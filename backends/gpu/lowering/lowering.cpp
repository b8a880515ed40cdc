// SPDX-License-Identifier: Apache-2.0
#include "gpu/lowering/lowering.h"

#include <map>

#include "gpu/lowering/products.h"
#include "gpu/source/elementwise_text.h"

namespace transom::gpu {
namespace {

// How an operation is lowered. A composite is one that the device runs whole, where its inputs are floating and
// `takes`, if there is one, agrees; primitives are always run.
struct Entry {
  void (*lower)(Emitter&, const Work&);
  bool composite = false;
  bool (*takes)(const transom_value* inputs, size_t inputs_count, const plugin::Attributes&) = nullptr;
  bool integers = false;  // its first input may be of integers
};

void lower_alone(Emitter& emitter, const Work& work) { lower_region(emitter, work, nullptr); }

const std::map<std::string, Entry, std::less<>>& operations() {
  static const std::map<std::string, Entry, std::less<>> table = {
      {"reshape", {lower_movement}},
      {"permute", {lower_movement}},
      {"broadcast", {lower_movement}},
      {"slice", {lower_movement}},
      {"pad", {lower_movement}},
      {"concatenate", {lower_movement}},
      {"reverse", {lower_movement}},
      {"dynamic_slice", {lower_movement}},
      {"dynamic_update_slice", {lower_movement}},
      {"iota", {lower_alone}},
      {"constant", {lower_alone}},
      {"random_bits", {lower_alone}},
      {"reduce_sum", {lower_reduction}},
      {"reduce_max", {lower_reduction}},
      {"reduce_min", {lower_reduction}},
      {"arg_max", {lower_arg}},
      {"arg_min", {lower_arg}},
      {"cumulative_sum", {lower_cumulative_sum}},
      {"sort", {lower_ordering}},
      {"top_k", {lower_ordering}},
      {"gather", {lower_indexing}},
      {"scatter_add", {lower_indexing}},
      {"dot_general", {lower_product}},
      {"linear", {lower_product, true}},
      {"quantized_matmul", {lower_packed_product, true, runs_packed_product}},
      {"quantized_matmul_gradient", {lower_packed_product, true, runs_packed_product}},
      {"integer_linear", {lower_integer_product, true, runs_integer_product, true}},
      {"integer_convolution", {lower_convolution, true, runs_integer_convolution, true}},
      {"convolution", {lower_convolution}},
      {"convolution_input_gradient", {lower_convolution}},
      {"convolution_weight_gradient", {lower_convolution}},
      {"attention", {lower_attention, true, runs_attention}},
      {"attention_gradient", {lower_attention_gradient, true, runs_attention_gradient}},
      {"biased_attention_gradient", {lower_attention_gradient, true, runs_biased_attention_gradient}},
      {"softmax", {lower_rows, true}},
      {"log_softmax", {lower_rows, true}},
      {"softmax_gradient", {lower_rows, true}},
      {"log_softmax_gradient", {lower_rows, true}},
      {"layer_norm", {lower_norms, true}},
      {"layer_norm_gradient", {lower_norms, true}},
      {"rms_norm", {lower_norms, true}},
      {"rms_norm_gradient", {lower_norms, true}},
      {"cross_entropy", {lower_rows, true}},
      {"cross_entropy_gradient", {lower_rows, true}},
  };
  return table;
}

}  // namespace

void lower_node(Emitter& emitter, const Work& work) {
  const std::string& op = work.node.op();
  if (op == "fusion") {
    if (!work.region) backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: expected a region", work.node.place());
    return lower_region(emitter, work, work.region);
  }
  if (is_elementwise(op)) return lower_alone(emitter, work);
  const auto found = operations().find(op);
  if (found == operations().end())
    backend::fail(TRANSOM_UNSUPPORTED, "{}: the device has no such operation", work.node.place());
  found->second.lower(emitter, work);
}

bool claims_composite(const Facts& facts, std::string_view op, const transom_value* inputs, size_t inputs_count,
                      const plugin::Attributes& attributes) {
  if (op == "fusion") return true;
  const auto found = operations().find(op);
  if (found == operations().end() || !found->second.composite) return false;
  if (op.ends_with("attention_gradient") && facts.group_memory < kBlockMemory) return false;
  if (found->second.takes && !found->second.takes(inputs, inputs_count, attributes)) return false;
  return inputs_count > 0 &&
         (found->second.integers || backend::is_floating(static_cast<transom_dtype>(inputs[0].dtype)));
}

}  // namespace transom::gpu
