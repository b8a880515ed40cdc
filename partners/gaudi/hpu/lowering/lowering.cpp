// SPDX-License-Identifier: Apache-2.0
#include "hpu/lowering/lowering.h"

#include <algorithm>

namespace transom::hpu {

const LoweringTable& lowering_table() {
  static const LoweringTable& table = *[] {
    auto* made = new LoweringTable;  // never destroyed: devices may be closed at the end of the process
    add_elementwise_lowerings(*made);
    add_movement_lowerings(*made);
    add_indexing_lowerings(*made);
    add_reduction_lowerings(*made);
    add_product_lowerings(*made);
    add_convolution_lowerings(*made);
    add_row_lowerings(*made);
    add_attention_lowerings(*made);
    return made;
  }();
  return table;
}

namespace {

// The flash nodes take no cap of scores, and draw other elements for dropout than Philox does.
bool is_plain_attention(std::span<const transom_attribute> attributes) {
  return std::none_of(attributes.begin(), attributes.end(), [](const transom_attribute& attribute) {
    const std::string_view name = attribute.name;
    return (name == "dropout" || name == "soft_cap") && attribute.float_value != 0;
  });
}

}  // namespace

bool claims_composite(std::string_view op, std::span<const transom_value> inputs,
                      std::span<const transom_attribute> attributes, synDeviceType device) {
  const auto entry = lowering_table().find(op);
  if (entry == lowering_table().end() || !entry->second.composite || inputs.empty()) return false;
  if (op.starts_with("attention") && (device == synDeviceGaudi || !is_plain_attention(attributes))) return false;
  for (const transom_value& input : inputs)
    if (std::count(input.shape, input.shape + input.rank, 0)) return false;  // nothing to compute: the host's
  const int32_t dtype = inputs[0].dtype;
  return dtype == TRANSOM_FLOAT32 || dtype == TRANSOM_BFLOAT16 ||
         (dtype == TRANSOM_FLOAT16 && device != synDeviceGaudi);
}

}  // namespace transom::hpu
