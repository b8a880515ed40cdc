// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "cpu/device/memory.h"
#include "cpu/kernels/kernel.h"

namespace transom::cpu {

// What `plan.pack` makes of a kernel's second input: kept with its buffer under `plan.key()` where it is frozen, else
// made anew.
template <typename Plan>
auto packed_weight(const Plan& plan, const Arguments& arguments, bool frozen) {
  const auto pack = [&] { return plan.pack(arguments.inputs[1]); };
  using Weight = typename decltype(pack())::element_type;
  if (!frozen) return std::shared_ptr<const Weight>(pack());
  return std::static_pointer_cast<const Weight>(packed_copy(*arguments.input_buffers[1], arguments.input_offsets[1],
                                                            plan.key(),
                                                            [&]() -> std::shared_ptr<PackedWeight> { return pack(); }));
}

// The same where it is frozen; null where the input is to be read as it is: if it is not, and if `waits` at its first
// use, since packing what is used once costs more than it saves.
template <typename Plan>
auto kept_weight(const Plan& plan, const Arguments& arguments, bool frozen, bool waits) {
  using Weight = decltype(packed_weight(plan, arguments, true));
  const auto first = [&] {
    return waits && !used_before(*arguments.input_buffers[1], arguments.input_offsets[1], plan.key());
  };
  return !frozen || first() ? Weight() : packed_weight(plan, arguments, true);
}

// A kernel that runs `plan` with its packed weight.
template <typename Plan>
Kernel packed_kernel(std::string name, std::shared_ptr<const Plan> plan, bool frozen) {
  Kernel kernel;
  kernel.name = std::move(name) + (frozen ? ", packed" : "");
  kernel.run = [plan = std::move(plan), frozen](const Arguments& arguments) {
    plan->run(arguments, *packed_weight(*plan, arguments, frozen));
  };
  return kernel;
}

}  // namespace transom::cpu
