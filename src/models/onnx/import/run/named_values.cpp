// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/run/named_values.h"

#include <cstring>

#include "base/error.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "models/onnx/import/elementwise/element_values.h"

namespace transom::onnx {
namespace {

// Types that io/safetensors does not know travel under the name of one that takes as many bytes.
struct StandIn {
  ElementType type;
  std::string_view name;
};
constexpr StandIn kStandIns[] = {{ElementType::kInt16, "F16"},
                                 {ElementType::kUInt16, "F16"},
                                 {ElementType::kUInt64, "I64"},
                                 {ElementType::kFloat8E4M3FN, "U8"},
                                 {ElementType::kFloat8E5M2, "U8"}};

constexpr size_t kMaximumHeader = 100'000'000;

std::string_view header_of(std::string_view file) {
  uint64_t size = 0;
  if (file.size() < 8) return {};
  std::memcpy(&size, file.data(), 8);
  if (size > file.size() - 8 || size > kMaximumHeader) return {};
  return file.substr(8, static_cast<size_t>(size));
}

}  // namespace

NamedValues read_values(const fs::path& path) {
  const auto file = MappedFile::open(path);
  const std::string_view header = header_of(file->text());
  std::map<std::string, ElementType> types;
  std::shared_ptr<const void> owner = file;
  std::span<const std::byte> bytes = file->bytes();
  const Json json = header.empty() ? Json() : parse_json(header, path.string());
  Json changed = json;
  bool changes = false;
  if (json.is_object())
    for (const auto& [name, entry] : json.items()) {
      if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string()) continue;
      for (const StandIn& stand_in : kStandIns)
        if (entry["dtype"] == info(stand_in.type).safetensors) {
          types[name] = stand_in.type;
          changed[name]["dtype"] = stand_in.name;
          changes = true;
        }
    }
  if (changes) {
    const std::string text = changed.dump();
    const uint64_t size = text.size();
    const auto held = std::make_shared<std::vector<std::byte>>(8 + text.size() + bytes.size() - 8 - header.size());
    std::memcpy(held->data(), &size, 8);
    std::memcpy(held->data() + 8, text.data(), text.size());
    const auto data = bytes.subspan(8 + header.size());
    std::copy(data.begin(), data.end(), held->begin() + static_cast<ptrdiff_t>(8 + text.size()));
    bytes = *held;
    owner = held;
  }
  NamedValues values;
  for (const auto& [name, view] : SafetensorsFile::parse(bytes, path.string(), owner).tensors()) {
    const auto type = types.find(name);
    values.emplace_back(
        name, value_of_bytes(view.bytes, type != types.end() ? type->second : element_type_of(view.dtype), view.shape,
                             view.owner));
  }
  return values;
}

void write_values(const fs::path& path, const NamedValues& values) {
  std::string header = "{";
  std::vector<std::vector<std::byte>> parts;
  uint64_t offset = 0;
  for (const auto& [name, value] : values) {
    const ElementTypeInfo& type = info(value.type);
    if (type.safetensors.empty())
      fail("{}: output {} of {} is not supported: safetensors files do not have this type", path.string(), quoted(name),
           type.name);
    parts.push_back(packed_bytes(value));
    header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          offset || parts.size() > 1 ? "," : "",
                          Json(name).dump(-1, ' ', false, Json::error_handler_t::replace), type.safetensors,
                          fmt::join(value.tensor.shape(), ","), offset, offset + parts.back().size());
    offset += parts.back().size();
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  const uint64_t size = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(header);
  for (const auto& part : parts) file.write(part);
  file.commit();
}

}  // namespace transom::onnx
