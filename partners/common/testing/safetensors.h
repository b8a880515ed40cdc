// SPDX-License-Identifier: Apache-2.0
// The files that `transom forward` reads and writes. For files of tests: what is wrong is thrown by whoever reads past
// its end.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "testing/files.h"
#include "transom/model.h"
#include "transom/tensor.h"

namespace transom::test {

// Its tensors, on the device in use.
inline NamedTensors read_safetensors(const fs::path& path) {
  static const std::map<std::string, DType> types{
      {"BOOL", DType::kBool},   {"U8", DType::kUInt8},   {"I8", DType::kInt8},     {"I32", DType::kInt32},
      {"I64", DType::kInt64},   {"U32", DType::kUInt32}, {"F16", DType::kFloat16}, {"BF16", DType::kBFloat16},
      {"F32", DType::kFloat32}, {"F64", DType::kFloat64}};
  const std::string file = read_file(path);
  uint64_t length = 0;
  std::memcpy(&length, file.substr(0, sizeof length).data(), sizeof length);
  const size_t begin = sizeof length + length;
  const Json header = Json::parse(file.substr(sizeof length, length));
  NamedTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto places = entry.at("data_offsets").get<std::vector<size_t>>();
    const std::string bytes = file.substr(begin + places.at(0), places.at(1) - places.at(0));
    tensors.set(name, Tensor::from_bytes(std::as_bytes(std::span(bytes)),
                                         {types.at(entry.at("dtype")), entry.at("shape").get<Shape>()}));
  }
  return tensors;
}

// Token ids and the like: the same values under each of the names.
inline void write_integers(const fs::path& path, const std::vector<std::string>& names, const Shape& shape,
                           const std::vector<int64_t>& values) {
  const size_t bytes = values.size() * sizeof(int64_t);
  Json header = Json::object();
  for (size_t i = 0; i < names.size(); ++i)
    header[names[i]] = {{"dtype", "I64"}, {"shape", shape}, {"data_offsets", {i * bytes, (i + 1) * bytes}}};
  const std::string text = header.dump();
  const uint64_t length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file += text;
  for (size_t i = 0; i < names.size(); ++i) file.append(reinterpret_cast<const char*>(values.data()), bytes);
  write_file(path, file);
}

}  // namespace transom::test
