// SPDX-License-Identifier: Apache-2.0
#include "files/foreign/tensorflow/tensor_bundle.h"

#include <cstring>
#include <memory>
#include <optional>

#include "base/files/directories.h"
#include "files/foreign/byte_range.h"
#include "files/foreign/tensorflow/crc32c.h"
#include "files/foreign/tensorflow/leveldb_table.h"
#include "files/foreign/tensorflow/varint_reader.h"

namespace transom {
namespace {

constexpr uint64_t kMaximumShards = 10'000;
constexpr size_t kMaximumAxes = 254;

// A field of a protobuf message: its number and what it holds.
struct Field {
  uint64_t number, value = 0;
  std::span<const std::byte> bytes;
};

std::optional<Field> next_field(VarintReader& reader, const std::string& where) {
  if (reader.at_end()) return {};
  const uint64_t key = reader.next();
  Field field{key >> 3, 0, {}};
  switch (key & 7) {
    case 0:
      field.value = reader.next();
      break;
    case 1:
      field.bytes = reader.take(8);
      break;
    case 2:
      field.bytes = reader.take(reader.next());
      break;
    case 5:
      field.bytes = reader.take(4);
      break;
    default:
      fail("{}: is damaged: field {} has the wire type {}", where, field.number, key & 7);
  }
  return field;
}

// TensorShapeProto: field 2 is an axis, whose field 1 is the extent.
std::vector<int64_t> read_shape(std::span<const std::byte> bytes, const std::string& where) {
  std::vector<int64_t> shape;
  VarintReader reader(bytes, where);
  while (const auto field = next_field(reader, where)) {
    if (field->number != 2) continue;
    if (shape.size() == kMaximumAxes) fail("{}: a shape has more than {} axes", where, kMaximumAxes);
    shape.push_back(0);
    VarintReader axis(field->bytes, where);
    while (const auto size = next_field(axis, where))
      if (size->number == 1) shape.back() = static_cast<int64_t>(size->value);
  }
  return shape;
}

BundleEntry read_entry(std::span<const std::byte> bytes, const std::string& where) {
  BundleEntry entry;
  VarintReader reader(bytes, where);
  while (const auto field = next_field(reader, where)) switch (field->number) {
      case 1:
        entry.dtype = static_cast<int64_t>(field->value);
        break;
      case 2:
        entry.shape = read_shape(field->bytes, where);
        break;
      case 3:
        entry.shard = field->value;
        break;
      case 4:
        entry.offset = field->value;
        break;
      case 5:
        entry.size = field->value;
        break;
      case 6:
        if (field->bytes.size() != 4) fail("{}: is damaged: a CRC has {} bytes", where, field->bytes.size());
        std::memcpy(&entry.crc, field->bytes.data(), 4);
        break;
      case 7:
        entry.sliced = true;
        break;
      default:
        break;
    }
  return entry;
}

std::optional<DType> tensorflow_dtype(int64_t type) {
  switch (type) {
    case 1:
      return DType::kFloat32;
    case 2:
      return DType::kFloat64;
    case 3:
      return DType::kInt32;
    case 9:
      return DType::kInt64;
    case 14:
      return DType::kBFloat16;
    case 19:
      return DType::kFloat16;
    default:
      return {};
  }
}

fs::path shard_path(const fs::path& index, uint64_t shard, uint64_t shards) {
  fs::path path = index;
  return path.replace_extension(fmt::format(".data-{:05}-of-{:05}", shard, shards));
}

}  // namespace

BundleIndex parse_bundle_index(std::span<const std::byte> bytes, const std::string& where) {
  BundleIndex result;
  bool has_header = false;
  for (const auto& [key, value] : parse_leveldb_table(bytes, where)) {
    if (!key.empty()) {
      result.entries.emplace_back(key, read_entry(value, where));
      continue;
    }
    VarintReader reader(value, where);
    while (const auto field = next_field(reader, where)) {
      if (field->number == 1) result.shards = field->value;
      if (field->number == 2 && field->value != 0) fail("{}: was saved on a machine of another byte order", where);
    }
    has_header = true;
  }
  if (!has_header || result.shards == 0 || result.shards > kMaximumShards)
    fail("{}: expected 1 to {} shards, found {}", where, kMaximumShards, result.shards);
  for (const auto& [name, entry] : result.entries)
    if (entry.shard >= result.shards)
      fail("{}: {}: should be in shard {} of {}", where, quoted(name), entry.shard, result.shards);
  return result;
}

NamedViews read_tensor_bundle(const fs::path& index, const std::function<bool(std::string_view)>& wanted) {
  const std::string where = index.string();
  const std::string text = read_file(index, uint64_t{1} << 28);
  const BundleIndex bundle = parse_bundle_index(std::as_bytes(std::span(text.data(), text.size())), where);
  std::map<uint64_t, std::shared_ptr<const MappedFile>> shards;
  NamedViews result;
  for (const auto& [name, entry] : bundle.entries) {
    if (!wanted(name)) continue;
    if (entry.sliced) fail("{}: {}: lies in slices; expected whole variables", where, quoted(name));
    const std::optional<DType> dtype = tensorflow_dtype(entry.dtype);
    if (!dtype)
      fail("{}: {}: has TensorFlow's type {}; expected floating-point numbers or integers", where, quoted(name),
           entry.dtype);
    std::shared_ptr<const MappedFile>& shard = shards[entry.shard];
    if (!shard) {
      const fs::path path = shard_path(index, entry.shard, bundle.shards);
      if (!path_exists(path))
        fail("{}: its values should be in {}, which is not there", where, path.filename().string());
      shard = MappedFile::open(path);
    }
    const std::string file = shard->path().string();
    const ByteRange values(shard->bytes(), file);
    const uint64_t size = checked_bytes(entry.shape, size_of(*dtype), values.size(), file + ": " + quoted(name));
    if (size != entry.size)
      fail("{}: {}: has {} bytes, its shape [{}] needs {}", where, quoted(name), entry.size,
           fmt::join(entry.shape, ", "), size);
    TensorView view{*dtype, entry.shape, values.at(entry.offset, size, name.c_str()), shard};
    if (masked_crc32c(view.bytes) != entry.crc)
      fail("{}: {}: is damaged: its CRC is not that of {}", file, quoted(name), where);
    result.emplace_back(name, std::move(view));
  }
  return result;
}

}  // namespace transom
