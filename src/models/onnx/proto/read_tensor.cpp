// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/proto/read_tensor.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/protobuf/wire_reader.h"

namespace transom::onnx {
namespace {

constexpr size_t kMaximumRank = 64;
constexpr uint64_t kMaximumStrings = 1'000'000;

// The fields of a TensorProto that may hold its values.
struct Values {
  std::optional<std::string_view> raw;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int64_t> int32s, int64s, uint64s;
  std::map<std::string, std::string, std::less<>> external;
  bool is_external = false;

  size_t count() const { return floats.size() + doubles.size() + int32s.size() + int64s.size() + uint64s.size(); }
};

std::pair<std::string, std::string> read_entry(std::string_view bytes, const std::string& where) {
  std::pair<std::string, std::string> entry;
  WireReader reader(bytes, where, kOnnxFile);
  while (const auto field = reader.next()) {
    if (field->number == 1) entry.first = reader.text(*field);
    if (field->number == 2) entry.second = reader.text(*field);
  }
  return entry;
}

template <typename To, typename From>
void store(const std::vector<From>& from, std::byte* to) {
  for (size_t i = 0; i < from.size(); ++i) {
    const To value = static_cast<To>(from[i]);
    std::memcpy(to + i * sizeof(To), &value, sizeof(To));
  }
}

// Numbers of the typed fields as bytes of the element type. Types of less than a byte lie in int32_data as raw_data has
// them, a byte each number.
void store_values(const Values& values, ElementType type, std::byte* to) {
  switch (info(type).bits) {
    case 64:
      if (type == ElementType::kFloat64) return store<double>(values.doubles, to);
      return store<int64_t>(type == ElementType::kInt64 ? values.int64s : values.uint64s, to);
    case 32:
      if (type == ElementType::kFloat32) return store<float>(values.floats, to);
      return store<uint32_t>(type == ElementType::kUInt32 ? values.uint64s : values.int32s, to);
    case 16:
      return store<uint16_t>(values.int32s, to);
    default:
      return store<uint8_t>(values.int32s, to);
  }
}

size_t values_in_field(const Values& values, ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return values.floats.size();
    case ElementType::kFloat64:
      return values.doubles.size();
    case ElementType::kInt64:
      return values.int64s.size();
    case ElementType::kUInt32:
    case ElementType::kUInt64:
      return values.uint64s.size();
    default:
      return values.int32s.size();
  }
}

uint64_t entry_number(const Values& values, std::string_view key, uint64_t otherwise, const std::string& where) {
  const auto found = values.external.find(key);
  if (found == values.external.end()) return otherwise;
  const std::string& text = found->second;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    fail("{}: external data: expected a whole number as {}, found {}", where, key, quoted(text));
  return number;
}

// Refuses what leads out of the directory: absolute paths, "..", links on the way.
std::shared_ptr<const MappedFile> open_external(const std::string& location, const std::string& where,
                                                FileContext& context) {
  if (context.directory.empty()) fail("{}: external data is not taken here", where);
  const fs::path path(location);
  bool inside = !location.empty() && path.is_relative() && location.find('\0') == std::string::npos;
  for (const fs::path& part : path) inside &= part != "..";
  if (!inside)
    fail("{}: external data: the location {} must be a path inside the directory of the model", where,
         quoted(location));
  std::shared_ptr<const MappedFile>& file = context.external[location];
  if (file) return file;
  fs::path step = context.directory;
  for (const fs::path& part : path) {
    step /= part;
    std::error_code error;
    if (fs::is_symlink(step, error)) fail("{}: external data: {} is a link, which is refused", where, step.string());
  }
  if (!file_exists(step)) fail("{}: external data: there is no file {}", where, step.string());
  return file = MappedFile::open(step);
}

void take_external(TensorData& tensor, const Values& values, uint64_t size, const std::string& where,
                   FileContext& context) {
  const auto location = values.external.find("location");
  if (location == values.external.end()) fail("{}: external data without a location", where);
  const std::shared_ptr<const MappedFile> file = open_external(location->second, where, context);
  const uint64_t held = file->bytes().size(), offset = entry_number(values, "offset", 0, where);
  if (offset > held) fail("{}: external data begins at {}, {} has {} bytes", where, offset, location->second, held);
  const uint64_t length = entry_number(values, "length", held - offset, where);
  if (length > held - offset)
    fail("{}: external data of {} bytes from {} on, {} has {} bytes", where, length, offset, location->second, held);
  if (length < size || (length > size && values.external.contains("length")))
    fail("{}: needs {} bytes, its external data has {}", where, size, length);
  tensor.bytes = file->bytes().subspan(offset, size);
  tensor.owner = file;
}

// The fields of a tensor; returns the number of its element type.
int64_t read_fields(std::string_view bytes, const FileContext& context, TensorData& tensor, Values& values) {
  int64_t number = 0;
  WireReader reader(bytes, context.where, kOnnxFile);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 1:
        reader.add_integers(*field, tensor.shape);
        break;
      case 2:
        number = reader.integer(*field);
        break;
      case 3:
        fail("{}: a tensor in segments is not supported", context.where);
      case 4:
        reader.add_floats(*field, values.floats);
        break;
      case 5:
        reader.add_integers(*field, values.int32s);
        break;
      case 6:
        require(tensor.strings.size() < kMaximumStrings, "{}: a tensor of more than {} strings", context.where,
                kMaximumStrings);
        tensor.strings.emplace_back(reader.text(*field));
        break;
      case 7:
        reader.add_integers(*field, values.int64s);
        break;
      case 8:
        tensor.name = reader.text(*field);
        break;
      case 9:
        values.raw = reader.text(*field);
        break;
      case 10:
        reader.add_doubles(*field, values.doubles);
        break;
      case 11:
        reader.add_integers(*field, values.uint64s);
        break;
      case 13:
        values.external.insert(read_entry(reader.text(*field), context.where));
        break;
      case 14:
        values.is_external = reader.integer(*field) == 1;
        break;
      default:
        break;
    }
  }
  return number;
}

}  // namespace

uint64_t tensor_bytes(ElementType type, const std::vector<int64_t>& shape, const std::string& where) {
  // Every partial product must fit, so that nobody who counts elements later can overflow, zero extents or not.
  int64_t count = 1, reach = 64;
  bool fits = shape.size() <= kMaximumRank;
  for (const int64_t extent : shape) {
    fits &= extent >= 0 && !__builtin_mul_overflow(reach, std::max<int64_t>(extent, 1), &reach);
    if (fits) count *= extent;
  }
  if (!fits) fail("{}: its shape [{}] is impossible", where, fmt::join(shape, ", "));
  return (static_cast<uint64_t>(count) * static_cast<uint64_t>(info(type).bits) + 7) / 8;
}

std::shared_ptr<const TensorData> read_tensor(std::string_view bytes, FileContext& context) {
  auto tensor = std::make_shared<TensorData>();
  tensor->owner = context.owner;
  Values values;
  const int64_t number = read_fields(bytes, context, *tensor, values);
  const std::string where = fmt::format("{}: tensor {}", context.where, quoted(tensor->name));
  const ElementTypeInfo* type = find_element_type(number);
  if (!type) fail("{}: its element type {} is unknown", where, number);
  tensor->type = type->type;
  const uint64_t size = tensor_bytes(type->type, tensor->shape, where);
  if (type->type == ElementType::kString) {
    int64_t count = 1;
    for (const int64_t extent : tensor->shape) count *= extent;
    if (static_cast<uint64_t>(count) != tensor->strings.size())
      fail("{}: shape [{}] needs {} strings, it has {}", where, fmt::join(tensor->shape, ", "), count,
           tensor->strings.size());
    return tensor;
  }
  if (values.is_external) {
    take_external(*tensor, values, size, where, context);
    return tensor;
  }
  if (values.raw) {
    if (values.raw->size() != size || values.count() > 0)
      fail("{}: shape [{}] of {} needs {} bytes, it has {}", where, fmt::join(tensor->shape, ", "), type->name, size,
           values.raw->size() + values.count());
    tensor->bytes = std::as_bytes(std::span(values.raw->data(), values.raw->size()));
    return tensor;
  }
  const size_t given = values_in_field(values, type->type),
               needed = static_cast<size_t>(type->bits < 8 ? size : size * 8 / static_cast<uint64_t>(type->bits));
  if (given != needed || given != values.count())
    fail("{}: shape [{}] of {} needs {} numbers, it has {}", where, fmt::join(tensor->shape, ", "), type->name, needed,
         values.count());
  const auto held = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(size));
  store_values(values, type->type, held->data());
  tensor->bytes = *held;
  tensor->owner = held;
  return tensor;
}

}  // namespace transom::onnx
