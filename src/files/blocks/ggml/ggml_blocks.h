// SPDX-License-Identifier: Apache-2.0
// The types of tensors in GGUF files, and their blocks: ggml-common.h of https://github.com/ggml-org/ggml
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/blocks/block_matrix.h"

namespace transom {

struct GgmlType {
  uint32_t id;
  const char* name;       // "Q4_K"
  int64_t values, bytes;  // of a block
};
// An unknown or removed type is an error that begins with `where`.
const GgmlType& ggml_type(uint32_t id, const std::string& where);
// By its name in any case; nothing where it is unknown.
const GgmlType* find_ggml_type(std::string_view name);

// The bytes of a tensor of this shape; an error that begins with `where` if its rows are no whole blocks.
uint64_t ggml_bytes(uint32_t type, const std::vector<int64_t>& shape, const std::string& where);

// The element type of tensors without blocks; nothing for those with.
std::optional<DType> ggml_plain_type(uint32_t type);

// A matrix of blocks over `bytes`, which `owner` keeps alive. Types without a layout of codes here are an error that
// begins with `where`.
std::shared_ptr<const BlockMatrix> ggml_matrix(uint32_t type, int64_t rows, int64_t depth,
                                               std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                               const std::string& where);

}  // namespace transom
