// SPDX-License-Identifier: Apache-2.0
#include "files/gguf/gguf_writer.h"

#include <cstring>

#include "base/error.h"
#include "files/blocks/ggml/ggml_blocks.h"

namespace transom {
namespace {

constexpr uint64_t kAlignment = 32;
enum ValueType : uint32_t { kUInt8 = 0, kUInt32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9 };

template <typename T>
void put(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}

void put_text(std::string& to, std::string_view text) {
  put(to, static_cast<uint64_t>(text.size()));
  to.append(text);
}

uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void GgufWriter::begin_value(const std::string& key, uint32_t type) {
  put_text(metadata_, key);
  put(metadata_, type);
  ++values_;
}

void GgufWriter::add_string(const std::string& key, std::string_view value) {
  begin_value(key, kString);
  put_text(metadata_, value);
}

void GgufWriter::add_count(const std::string& key, int64_t value) {
  if (value < 0 || value > UINT32_MAX) fail("{}: expected a number of 32 bits, found {}", key, value);
  begin_value(key, kUInt32);
  put(metadata_, static_cast<uint32_t>(value));
}

void GgufWriter::add_float(const std::string& key, double value) {
  begin_value(key, kFloat32);
  put(metadata_, static_cast<float>(value));
}

void GgufWriter::add_bool(const std::string& key, bool value) {
  begin_value(key, kBool);
  put(metadata_, static_cast<uint8_t>(value));
}

void GgufWriter::add_strings(const std::string& key, const std::vector<std::string>& values) {
  begin_value(key, kArray);
  put(metadata_, uint32_t{kString});
  put(metadata_, static_cast<uint64_t>(values.size()));
  for (const std::string& value : values) put_text(metadata_, value);
}

void GgufWriter::add_floats(const std::string& key, const std::vector<float>& values) {
  begin_value(key, kArray);
  put(metadata_, uint32_t{kFloat32});
  put(metadata_, static_cast<uint64_t>(values.size()));
  for (const float value : values) put(metadata_, value);
}

void GgufWriter::add_bytes(const std::string& key, std::string_view values) {
  begin_value(key, kArray);
  put(metadata_, uint32_t{kUInt8});
  put(metadata_, static_cast<uint64_t>(values.size()));
  metadata_.append(values);
}

void GgufWriter::add_bools(const std::string& key, const std::vector<bool>& values) {
  begin_value(key, kArray);
  put(metadata_, uint32_t{kBool});
  put(metadata_, static_cast<uint64_t>(values.size()));
  for (const bool value : values) put(metadata_, static_cast<uint8_t>(value));
}

void GgufWriter::add_ints(const std::string& key, const std::vector<int64_t>& values) {
  begin_value(key, kArray);
  put(metadata_, uint32_t{kInt32});
  put(metadata_, static_cast<uint64_t>(values.size()));
  for (const int64_t value : values) put(metadata_, static_cast<int32_t>(value));
}

void GgufWriter::add_tensor(std::string name, uint32_t type, std::vector<int64_t> shape,
                            std::function<std::vector<std::byte>()> bytes) {
  const uint64_t size = ggml_bytes(type, shape, name);
  put_text(table_, name);
  put(table_, static_cast<uint32_t>(shape.size()));
  for (size_t i = shape.size(); i-- > 0;) put(table_, static_cast<uint64_t>(shape[i]));
  put(table_, type);
  put(table_, offset_);
  offset_ += aligned(size);
  tensors_.push_back({std::move(name), size, std::move(bytes)});
}

void GgufWriter::write(const fs::path& path,
                       const std::function<void(int64_t, int64_t, const std::string&)>& on_tensor) {
  std::string head = "GGUF";
  put(head, uint32_t{3});
  put(head, static_cast<uint64_t>(tensors_.size()));
  put(head, values_);
  AtomicFile file(path);
  const uint64_t begin = head.size() + metadata_.size() + table_.size();
  file.write(head), file.write(metadata_), file.write(table_);
  file.write(std::string(aligned(begin) - begin, '\0'));
  int64_t done = 0;
  for (const Tensor& tensor : tensors_) {
    const std::vector<std::byte> bytes = tensor.bytes();
    if (bytes.size() != tensor.size)
      fail(ErrorKind::kInternal, "{}: expected {} bytes, found {}", tensor.name, tensor.size, bytes.size());
    file.write(bytes);
    file.write(std::string(aligned(bytes.size()) - bytes.size(), '\0'));
    if (on_tensor) on_tensor(++done, static_cast<int64_t>(tensors_.size()), tensor.name);
  }
  file.commit();
}

}  // namespace transom
