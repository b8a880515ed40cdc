// SPDX-License-Identifier: Apache-2.0
// Small GGUF files, written field by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transom::test {

class GgufBytes {
 public:
  explicit GgufBytes(uint32_t version = 3) : version_(version) {}

  GgufBytes& text(std::string_view key, std::string_view value) {
    begin(key, 8);
    put_text(keys_, value);
    return *this;
  }
  GgufBytes& number(std::string_view key, uint32_t value) {
    begin(key, 4);
    put(keys_, value);
    return *this;
  }
  GgufBytes& floating(std::string_view key, float value) {
    begin(key, 6);
    put(keys_, value);
    return *this;
  }
  GgufBytes& texts(std::string_view key, const std::vector<std::string>& values) {
    begin(key, 9);
    put(keys_, uint32_t{8});
    put(keys_, static_cast<uint64_t>(values.size()));
    for (const std::string& value : values) put_text(keys_, value);
    return *this;
  }
  // `extents` fastest first, as the format has them.
  GgufBytes& tensor(std::string_view name, const std::vector<uint64_t>& extents, uint32_t type, std::string bytes) {
    ++tensor_count_;
    put_text(tensors_, name);
    put(tensors_, static_cast<uint32_t>(extents.size()));
    for (const uint64_t extent : extents) put(tensors_, extent);
    put(tensors_, type);
    put(tensors_, static_cast<uint64_t>(data_.size()));
    data_ += bytes;
    data_.resize((data_.size() + 31) / 32 * 32);
    return *this;
  }
  static std::string floats(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }

  std::string made() const {
    std::string all = "GGUF";
    put(all, version_);
    put(all, tensor_count_);
    put(all, key_count_);
    all += keys_ + tensors_;
    all.resize((all.size() + 31) / 32 * 32);
    return all + data_;
  }

 private:
  template <typename T>
  static void put(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static void put_text(std::string& to, std::string_view text) {
    put(to, static_cast<uint64_t>(text.size()));
    to += text;
  }
  void begin(std::string_view key, uint32_t type) {
    ++key_count_;
    put_text(keys_, key);
    put(keys_, type);
  }

  uint32_t version_;
  uint64_t tensor_count_ = 0, key_count_ = 0;
  std::string keys_, tensors_, data_;
};

}  // namespace transom::test
