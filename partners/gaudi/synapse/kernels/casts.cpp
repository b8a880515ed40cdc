// SPDX-License-Identifier: Apache-2.0
// cast_A_to_B, one GUID for each pair.
#include <algorithm>
#include <limits>

#include "elementwise.h"

namespace synapse_emulator {
namespace {

struct Pair {
  synDataType from, to;
};

Pair types_of(const Node& node) {
  // The GUID is cast_<from>_to_<to>; the suffix is the target.
  for (const synDataType from :
       {syn_type_single, syn_type_bf16, syn_type_fp16, syn_type_fp8_143, syn_type_fp8_152, syn_type_int8,
        syn_type_uint8, syn_type_int16, syn_type_uint16, syn_type_int32, syn_type_uint32, syn_type_int64})
    if (node.guid == std::string("cast_") + name_of(from) + "_to") return {from, node.type};
  return {syn_type_na, syn_type_na};
}

void check_cast(const Node& node) {
  require_counts(node, 1, 1, 1, 1);
  const Pair pair = types_of(node);
  require_type(node, node.input(0), pair.from, "the input");
  require_type(node, node.output(0), pair.to, "the output");
  require_sizes(node, node.output(0), node.input(0).sizes, "the output");
  if (node.params.empty()) return;
  const auto params = params_of<CastParams>(node, {4, 8, 12, 16});
  const bool known = params.round_mode == 0 || params.round_mode == 1 || params.round_mode == 2 ||
                     params.round_mode == 4 || params.round_mode == 5 || params.round_mode == 6;
  require(known, node, "rounding mode ", params.round_mode, " is not emulated");
  require(is_floating(pair.to) ? params.round_mode == 0 || params.round_mode == 5 : true, node,
          "to a floating type only rounding to nearest even is emulated, found mode ", params.round_mode);
}

float rounded(float value, int mode) {
  switch (mode) {
    case 0:
      return std::nearbyint(value);
    case 1:
      return std::floor(value);
    case 2:
      return std::ceil(value);
    case 6:
      return std::round(value);
    default:
      return std::trunc(value);  // zero, and the default
  }
}

void run_cast(const Node& node) {
  const Pair pair = types_of(node);
  if (!is_floating(pair.from) && !is_floating(pair.to)) {
    map_elements<int64_t, int64_t, 1>(
        node.output(0), {&node.input(0)},
        [](const auto& in, int64_t* out, int64_t count) { std::copy(in[0], in[0] + count, out); });
    return;
  }
  if (is_floating(pair.to)) {
    map_elements<float, float, 1>(node.output(0), {&node.input(0)}, [](const auto& in, float* out, int64_t count) {
      std::copy(in[0], in[0] + count, out);
    });
    return;
  }
  const int mode = node.params.empty() ? 5 : params_of<CastParams>(node, {4, 8, 12, 16}).round_mode;
  double lowest = 0, highest = 0;  // what does not fit saturates
  with_type(pair.to, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      lowest = static_cast<double>(std::numeric_limits<T>::min());
      highest = static_cast<double>(std::numeric_limits<T>::max());
    }
  });
  const bool wide = size_of(pair.to) == 8;
  map_elements<float, int64_t, 1>(node.output(0), {&node.input(0)}, [&](const auto& in, int64_t* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const double value = rounded(in[0][i], mode);
      if (std::isnan(value)) out[i] = 0;
      else if (value >= highest) out[i] = wide ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(highest);
      else out[i] = static_cast<int64_t>(std::max(value, lowest));
    }
  });
}

}  // namespace

void add_casts(KernelTable& table) {
  const Types all = {syn_type_single,  syn_type_bf16,  syn_type_fp16,   syn_type_fp8_143,
                     syn_type_fp8_152, syn_type_int8,  syn_type_uint8,  syn_type_int16,
                     syn_type_uint16,  syn_type_int32, syn_type_uint32, syn_type_int64};
  for (const synDataType from : all) {
    Types to = all;
    std::erase(to, from);
    if (from == syn_type_fp8_143 || from == syn_type_fp8_152)
      std::erase_if(to, [](synDataType t) { return !is_floating(t); });
    table.add({std::string("cast_") + name_of(from) + "_to", Engine::kTpc, to, check_cast, run_cast, nullptr, false});
  }
}

}  // namespace synapse_emulator
