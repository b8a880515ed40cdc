// SPDX-License-Identifier: Apache-2.0
// How each operation is said in nodes of the graph compiler. Each family of operations is one file with one
// add_..._lowerings function. An operation that has no entry, or whose entry throws Failure(TRANSOM_UNSUPPORTED), is
// the host's.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "hpu/lowering/emitter.h"

namespace transom::hpu {

using Values = std::vector<Value>;
// The inputs have their canonical shapes, and so must the results.
using Lowering = Values (*)(const Node& node, Emitter& emit, const Values& inputs);
struct LoweringEntry {
  LoweringEntry() = default;
  LoweringEntry(Lowering lowering, bool is_composite = false) : lower(lowering), composite(is_composite) {}
  Lowering lower = nullptr;
  bool composite = false;  // an operation that would else be computed by its decomposition
};
using LoweringTable = std::unordered_map<std::string_view, LoweringEntry>;

const LoweringTable& lowering_table();

// Whether the device takes a composite for these inputs and attributes whole.
bool claims_composite(std::string_view op, std::span<const transom_value> inputs,
                      std::span<const transom_attribute> attributes, synDeviceType device);

void add_elementwise_lowerings(LoweringTable& table);
void add_movement_lowerings(LoweringTable& table);
void add_indexing_lowerings(LoweringTable& table);
void add_reduction_lowerings(LoweringTable& table);
void add_product_lowerings(LoweringTable& table);
void add_convolution_lowerings(LoweringTable& table);
void add_row_lowerings(LoweringTable& table);
void add_attention_lowerings(LoweringTable& table);

}  // namespace transom::hpu
