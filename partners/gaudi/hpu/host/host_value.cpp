// SPDX-License-Identifier: Apache-2.0
#include "hpu/host/host_value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "hpu/device/host.h"

namespace transom::hpu {
namespace {

using Inputs = std::vector<const HostValue*>;

std::vector<HostValue> call_host(const std::string& op, const Inputs& inputs, const std::vector<Type>& outputs,
                                 const std::vector<transom_attribute>& attributes) {
  std::vector<transom_value> values;
  std::vector<const void*> from;
  std::vector<void*> to;
  const auto add = [&](const Type& type) {
    values.push_back({type.dtype, static_cast<int32_t>(type.rank()), type.shape.data(), -1, 0});
  };
  std::vector<HostValue> made;
  made.reserve(outputs.size());
  for (const HostValue* input : inputs) add(input->type), from.push_back(input->bytes.data());
  for (const Type& type : outputs) {
    add(type);
    to.push_back(made.emplace_back(type).bytes.data());
  }
  std::vector<int32_t> indices(values.size());
  std::iota(indices.begin(), indices.end(), 0);
  const transom_node node{.struct_size = sizeof(transom_node),
                          .op = op.c_str(),
                          .scope = "",
                          .inputs = indices.data(),
                          .inputs_count = inputs.size(),
                          .outputs = indices.data() + inputs.size(),
                          .outputs_count = outputs.size(),
                          .attributes = attributes.data(),
                          .attributes_count = attributes.size(),
                          .region = nullptr};
  transom_error error{};
  const transom_status status = host().evaluate(&node, values.data(), values.size(), from.data(), to.data(), &error);
  if (status != TRANSOM_OK) fail(status, "{}", error.text);
  return made;
}

// Which elements `dropout` keeps: those whose random word is not below the probability in units of 2^-32.
HostValue dropout_mask(const Node& node, const Inputs& inputs) {
  const Shape& shape = node.output().shape;
  const transom_attribute of_shape{.name = "shape",
                                   .kind = TRANSOM_ATTRIBUTE_INTS,
                                   .int_value = 0,
                                   .float_value = 0,
                                   .string_value = nullptr,
                                   .ints = shape.data(),
                                   .ints_count = shape.size()};
  const HostValue words = std::move(call_host("random_bits", inputs, {{TRANSOM_UINT32, shape}}, {of_shape}).front());
  const auto least = static_cast<uint32_t>(std::min(std::floor(node.number("probability") * 0x1p32), 0x1p32 - 1));
  HostValue mask(node.output());
  for (size_t i = 0; i < mask.bytes.size(); ++i) {
    uint32_t word;
    std::memcpy(&word, words.bytes.data() + i * sizeof word, sizeof word);
    mask.bytes[i] = std::byte{word >= least};
  }
  return mask;
}

template <typename From, typename To, typename Convert>
HostValue converted(const HostValue& value, transom_dtype dtype, Convert&& convert) {
  HostValue result({dtype, value.type.shape});
  for (size_t i = 0; i < static_cast<size_t>(value.type.count()); ++i) {
    From element;
    std::memcpy(&element, value.bytes.data() + i * sizeof element, sizeof element);
    const To other = convert(element);
    std::memcpy(result.bytes.data() + i * sizeof other, &other, sizeof other);
  }
  return result;
}

}  // namespace

bool host_knows(std::string_view op) {
  return host().evaluates && host().evaluates(op == "dropout_mask" ? "random_bits" : std::string(op).c_str());
}

std::vector<HostValue> evaluate(const Node& node, const Inputs& inputs) {
  if (node.op() == "dropout_mask") return {dropout_mask(node, inputs)};
  return call_host(node.op(), inputs, node.outputs(), node.attributes().view());
}

HostValue widened(const HostValue& narrow) {
  return converted<int32_t, int64_t>(narrow, TRANSOM_INT64, [](int32_t element) { return element; });
}

HostValue narrowed(const HostValue& wide) {
  return converted<int64_t, int32_t>(wide, TRANSOM_INT32, [](int64_t element) {
    if (element < INT32_MIN || element > INT32_MAX)
      fail(TRANSOM_UNSUPPORTED, "{} does not fit the 32 bits in which the device computes int64", element);
    return static_cast<int32_t>(element);
  });
}

}  // namespace transom::hpu
