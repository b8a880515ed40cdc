// SPDX-License-Identifier: Apache-2.0
// Tensors whose values lie in host memory between the programs that use them, so that they take none of the device's.
// A program that has one among its inputs is given a copy, which lives as long as the program runs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transom/tensor.h"

namespace transom {

// A tensor of these values, which stay in host memory.
Tensor in_host_memory(std::vector<std::byte> bytes, const Type& type);
// The values of a tensor, read from the device: waits for what makes them. `reused`: one in host memory, of as many
// bytes, which nobody needs any more; its memory is taken, and who uses it afterwards gets an error.
Tensor in_host_memory(const Tensor& tensor, const Tensor& reused = {});

bool is_in_host_memory(const Tensor& tensor);
// Of a tensor in host memory, for as long as it lives. Throws an Error of kind kDevice where its memory was taken.
std::span<const std::byte> host_bytes(const Tensor& tensor);

}  // namespace transom
