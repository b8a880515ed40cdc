// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "cpu/kernels/packed_weight.h"

namespace transom::cpu {

// A kernel of a product whose rows stand apart: with its packed weight where that is kept, else with b as it is.
// Whether a weight is frozen does not show in the bits: what is sampled from a server is what a training pass computes,
// whose weights are not.
template <typename Product>
Kernel apart_kernel(std::string name, const Node& node, Product product, bool waits) {
  const std::optional<Node::Origin> weight = node.frozen_origin(1);
  const bool frozen = weight.has_value();
  const size_t scratch = product.scratch_bytes();
  Kernel kernel{std::move(name) + (frozen ? ", packed" : ""),
                [product = std::move(product), frozen, waits](const Arguments& arguments) {
                  if (const auto kept = kept_weight(product, arguments, frozen, waits)) product.run(arguments, *kept);
                  else product.run(arguments);
                },
                scratch};
  if (weight) kernel.instead.emplace_back(1, weight->value);
  return kernel;
}

// The type that a product's second input is packed from: that in which its weight is kept, which does not show either.
inline transom_dtype stored_type(const Node& node, transom_dtype read) {
  const std::optional<Node::Origin> weight = node.frozen_origin(1);
  return weight ? weight->dtype : read;
}

}  // namespace transom::cpu
