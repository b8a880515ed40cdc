// SPDX-License-Identifier: Apache-2.0
// From nodes to launches. Each function takes one kind of operations; lower_node finds it by name.
#pragma once

#include "gpu/lowering/work.h"

namespace transom::gpu {

// Adds the launches of a node. Throws Failure(TRANSOM_UNSUPPORTED) for an operation that the device cannot carry out.
void lower_node(Emitter& emitter, const Work& work);

// Whether a composite is run whole, see transom_plugin.claims.
bool claims_composite(const Facts& facts, std::string_view op, const transom_value* inputs, size_t inputs_count,
                      const plugin::Attributes& attributes);

// ---- by kind

void lower_region(Emitter& emitter, const Work& work, const transom_graph* region);  // fusions, element-wise primitives
void lower_movement(Emitter& emitter, const Work& work);
void lower_reduction(Emitter& emitter, const Work& work);
void lower_arg(Emitter& emitter, const Work& work);  // arg_max, arg_min
void lower_cumulative_sum(Emitter& emitter, const Work& work);
void lower_ordering(Emitter& emitter, const Work& work);
void lower_indexing(Emitter& emitter, const Work& work);
void lower_product(Emitter& emitter, const Work& work);  // dot_general, linear
void lower_convolution(Emitter& emitter, const Work& work);
void lower_rows(Emitter& emitter, const Work& work);   // softmax, cross entropy, their gradients
void lower_norms(Emitter& emitter, const Work& work);  // and their gradients

void lower_attention(Emitter& emitter, const Work& work);
void lower_attention_gradient(Emitter& emitter, const Work& work);

// Whether a composite is run whole by what lowers it.
bool runs_attention(const transom_value* inputs, size_t inputs_count, const plugin::Attributes& attributes);
bool runs_attention_gradient(const transom_value* inputs, size_t inputs_count, const plugin::Attributes& attributes);
bool runs_biased_attention_gradient(const transom_value* inputs, size_t inputs_count,
                                    const plugin::Attributes& attributes);
bool runs_packed_product(const transom_value* inputs, size_t inputs_count, const plugin::Attributes& attributes);
bool runs_integer_product(const transom_value* inputs, size_t inputs_count, const plugin::Attributes& attributes);
bool runs_integer_convolution(const transom_value* inputs, size_t inputs_count, const plugin::Attributes& attributes);
inline constexpr uint64_t kBlockMemory = 40 << 10;  // that a group needs for attention over fragments, and its gradient
inline constexpr int64_t kLargestHead = 256;        // of queries, keys and values in attention

// ---- shared

// to[to_start + sum of i * to_strides] = from[from_start + sum of i * from_strides] for all indices below `extents`;
// elements of `element` bytes. Starts and strides in elements.
struct Box {
  Shape extents, from_strides, to_strides;
  int64_t from_start = 0, to_start = 0;
};
void lower_box(Emitter& emitter, const Operand& from, const Operand& to, size_t element, Box box, const char* label);
void lower_copy(Emitter& emitter, const Operand& from, const Operand& to, int64_t bytes, const char* label);

Shape strides_of(const Shape& shape);

// Sorts lines of keys: the text of the loop that orders `key` and `place`, arrays in device memory, by both; and the
// key of an element, with which integers sort as the elements do.
void write_sort(KernelText& text, const std::string& key, const std::string& place, const std::string& length);
std::string sort_key(KernelText& text, transom_dtype dtype, const std::string& value, bool descending, bool nan_last);

// The sum of one value a thread over the group, in one order whatever the group computes: the text leaves it in `name`
// of every thread. `memory`: a local array of kGroup of the type.
void write_group_sum(KernelText& text, const std::string& name, const std::string& memory);
// Several such sums between the same barriers: pairs of name and memory.
void write_group_sums(KernelText& text, const std::vector<std::pair<std::string, std::string>>& sums);

}  // namespace transom::gpu
