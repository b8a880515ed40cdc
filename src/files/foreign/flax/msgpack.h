// SPDX-License-Identifier: Apache-2.0
// MessagePack (github.com/msgpack/msgpack, spec.md), as far as flax.serialization writes it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/files/files.h"
#include "files/checkpoint/tensor_view.h"

namespace transom {

// What flax calls a type of elements, "bfloat16"; nothing for those that it lacks here.
std::optional<std::string_view> flax_name_of(DType dtype);

// The arrays of nested maps, by their keys joined with '/': "bert/encoder/layer/0/attention/self/query/kernel". Views
// into `bytes`, which `owner` keeps alive; arrays that flax cut into chunks are put together. Everything else in the
// maps is left aside. Errors begin with `where`.
NamedViews parse_flax_msgpack(std::span<const std::byte> bytes, const std::string& where,
                              std::shared_ptr<const void> owner);
NamedViews read_flax_msgpack(const fs::path& path);

}  // namespace transom
