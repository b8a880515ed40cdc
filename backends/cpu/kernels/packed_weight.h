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

// A kernel that runs `plan` with it.
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
