// SPDX-License-Identifier: Apache-2.0
// The safetensors format: eight bytes of header length, a JSON header with type, shape and place of each tensor, the
// data.
#pragma once

#include <map>
#include <span>
#include <string_view>

#include "base/files/files.h"
#include "files/checkpoint/tensor_view.h"

namespace transom {

class SafetensorsFile {
 public:
  // Maps the file and checks its whole header before anything is read through it: sizes, places, overlaps, holes.
  // Errors name the file and the tensor.
  static SafetensorsFile open(const fs::path& path);
  static SafetensorsFile parse(std::span<const std::byte> bytes, const std::string& where,
                               std::shared_ptr<const void> owner);

  const NamedViews& tensors() const& { return tensors_; }  // in the order of the header
  NamedViews tensors() && { return std::move(tensors_); }  // so that a loop over open(path).tensors() is safe
  const TensorView* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  NamedViews tensors_;
  std::map<std::string, size_t, std::less<>> places_;
  std::map<std::string, std::string> metadata_;
};

// Writes as the Python library does: wide element types first, then by name; the file appears complete or not at all.
void write_safetensors(const fs::path& path, const NamedViews& tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace transom
