// SPDX-License-Identifier: Apache-2.0
// Writes the container that gguf_file.h reads, version 3.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"

namespace transom {

class GgufWriter {
 public:
  // Metadata, in order. Floats are f32.
  void add_string(const std::string& key, std::string_view value);
  void add_count(const std::string& key, int64_t value);  // u32; an error beyond
  void add_float(const std::string& key, double value);
  void add_bool(const std::string& key, bool value);
  void add_strings(const std::string& key, const std::vector<std::string>& values);
  void add_floats(const std::string& key, const std::vector<float>& values);
  void add_bytes(const std::string& key, std::string_view values);
  void add_bools(const std::string& key, const std::vector<bool>& values);
  void add_ints(const std::string& key, const std::vector<int64_t>& values);  // i32

  // A tensor of ggml type `type` and of PyTorch's shape, whose bytes are asked for when they are written: one tensor is
  // in memory at a time.
  void add_tensor(std::string name, uint32_t type, std::vector<int64_t> shape,
                  std::function<std::vector<std::byte>()> bytes);
  // Writes the file, whole or not at all. on_tensor(done, total, name) after each tensor.
  void write(const fs::path& path, const std::function<void(int64_t, int64_t, const std::string&)>& on_tensor = {});
  int64_t tensor_bytes() const { return static_cast<int64_t>(offset_); }

 private:
  struct Tensor {
    std::string name;
    uint64_t size;
    std::function<std::vector<std::byte>()> bytes;
  };
  void begin_value(const std::string& key, uint32_t type);
  std::string metadata_, table_;
  uint64_t values_ = 0, offset_ = 0;
  std::vector<Tensor> tensors_;
};

}  // namespace transom
