// SPDX-License-Identifier: Apache-2.0
#include "gpu/lowering/lowering.h"

#include "gpu/source/elementwise_text.h"

namespace transom::gpu {
namespace {

const LoweringTable& lowering_table() {
  static const LoweringTable table = [] {
    LoweringTable made;
    add_region_lowerings(made);
    add_movement_lowerings(made);
    add_reduction_lowerings(made);
    add_ordering_lowerings(made);
    add_indexing_lowerings(made);
    add_row_lowerings(made);
    add_norm_lowerings(made);
    add_product_lowerings(made);
    add_fragment_lowerings(made);
    add_convolution_lowerings(made);
    add_attention_lowerings(made);
    add_attention_gradient_lowerings(made);
    add_paged_attention_lowerings(made);
    return made;
  }();
  return table;
}

}  // namespace

void lower_node(Emitter& emitter, const Work& work) {
  if (is_elementwise(work.node.op())) return lower_alone(emitter, work);
  const auto found = lowering_table().find(work.node.op());
  if (found == lowering_table().end())
    backend::fail(TRANSOM_UNSUPPORTED, "{}: the device has no such operation", work.node.place());
  found->second.lower(emitter, work);
}

bool claims_composite(const Facts& facts, std::string_view op, std::span<const transom_value> inputs,
                      const plugin::Attributes& attributes) {
  const auto found = lowering_table().find(op);
  return found != lowering_table().end() && found->second.claims && found->second.claims(facts, inputs, attributes);
}

bool claims_always(const Facts&, std::span<const transom_value>, const plugin::Attributes&) { return true; }

bool claims_floats(const Facts&, std::span<const transom_value> inputs, const plugin::Attributes&) {
  return !inputs.empty() && backend::is_floating(static_cast<transom_dtype>(inputs[0].dtype));
}

}  // namespace transom::gpu
