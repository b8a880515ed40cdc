// SPDX-License-Identifier: Apache-2.0
// From nodes to launches. Each family of operations is one file with one add_..._lowerings function, which says what
// makes launches of which operation; lowering.cpp has the list of them.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "gpu/lowering/work.h"

namespace transom::gpu {

// Adds the launches of a node. Throws Failure(TRANSOM_UNSUPPORTED) for an operation that the device cannot carry out.
void lower_node(Emitter& emitter, const Work& work);

// Whether a composite is run whole, see transom_plugin.claims.
bool claims_composite(const Facts& facts, std::string_view op, std::span<const transom_value> inputs,
                      const plugin::Attributes& attributes);

// ---- by family

using Lower = void (*)(Emitter&, const Work&);
// Whether a composite with these inputs and attributes is run whole by a device of these facts.
using Claims = bool (*)(const Facts& facts, std::span<const transom_value> inputs,
                        const plugin::Attributes& attributes);

struct LoweringEntry {
  LoweringEntry() = default;
  LoweringEntry(Lower lower, Claims composite = nullptr) : lower(lower), claims(composite) {}
  Lower lower = nullptr;
  Claims claims = nullptr;  // null: of a primitive
};
using LoweringTable = std::unordered_map<std::string_view, LoweringEntry>;

// Claims that several families share.
bool claims_always(const Facts& facts, std::span<const transom_value> inputs, const plugin::Attributes& attributes);
// The first input is floating.
bool claims_floats(const Facts& facts, std::span<const transom_value> inputs, const plugin::Attributes& attributes);

void add_region_lowerings(LoweringTable& table);  // fusions; element-wise primitives need no entry
void add_movement_lowerings(LoweringTable& table);
void add_reduction_lowerings(LoweringTable& table);
void add_ordering_lowerings(LoweringTable& table);
void add_indexing_lowerings(LoweringTable& table);
void add_row_lowerings(LoweringTable& table);
void add_norm_lowerings(LoweringTable& table);
void add_product_lowerings(LoweringTable& table);
void add_fragment_lowerings(LoweringTable& table);  // products of codes and of bytes
void add_convolution_lowerings(LoweringTable& table);
void add_attention_lowerings(LoweringTable& table);
void add_attention_gradient_lowerings(LoweringTable& table);
void add_paged_attention_lowerings(LoweringTable& table);

// ---- shared

void lower_alone(Emitter& emitter, const Work& work);  // an element-wise primitive, or a sum over all elements of f32

// to[to_start + sum of i * to_strides] = from[from_start + sum of i * from_strides] for all indices below `extents`;
// elements of `element` bytes. Starts and strides in elements.
struct Box {
  Shape extents, from_strides, to_strides;
  int64_t from_start = 0, to_start = 0;
};
void lower_box(Emitter& emitter, const Operand& from, const Operand& to, size_t element, Box box, const char* label);
// Nothing is moved where a run has both at one place.
void lower_copy(Emitter& emitter, const Operand& from, const Operand& to, int64_t bytes, const char* label);

// to[n] = the sum of column n of a matrix of type x, as reduce_sum makes it.
void lower_column_sums(Emitter& emitter, const Type& x, const Operand& from, const Operand& to);

// The type as which elements of so many bytes move.
const char* moved_type(size_t bytes);

// Statements that `write` makes for elements of `type`, each of which is `of` of those at `source` and `target`: `unit`
// neighbours as one where both addresses allow it, else one by one.
void write_in_units(KernelText& text, const std::string& source, const std::string& target, size_t element,
                    int64_t unit, const std::function<void(const std::string& type, int64_t of)>& write);

Shape strides_of(const Shape& shape);

// Sorts lines of keys: the text of the loop that orders `key` and `place`, arrays in device memory, by both; and the
// key of an element, with which integers sort as the elements do.
void write_sort(KernelText& text, const std::string& key, const std::string& place, const std::string& length);
std::string sort_key(KernelText& text, transom_dtype dtype, const std::string& value, bool descending, bool nan_last);

// The loops around `body`, which computes element i of n: in vectors where all addresses allow them; the rest, or all,
// one by one. `count`: what n is.
void write_loops(KernelText& text, const std::string& n, const std::string& body, int64_t count);

// The sum of one value a thread over the group, in one order whatever the group computes: the text leaves it in `name`
// of every thread. `memory`: a local array of kGroup of the type.
void write_group_sum(KernelText& text, const std::string& name, const std::string& memory);
// Several such sums between the same barriers: pairs of name and memory.
void write_group_sums(KernelText& text, const std::vector<std::pair<std::string, std::string>>& sums);

}  // namespace transom::gpu
