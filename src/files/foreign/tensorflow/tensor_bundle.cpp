// SPDX-License-Identifier: Apache-2.0
#include "files/foreign/tensorflow/tensor_bundle.h"

#include <memory>
#include <optional>

#include "base/files/directories.h"
#include "base/numbers/crc32c.h"
#include "base/protobuf/wire_reader.h"
#include "files/foreign/byte_range.h"
#include "files/foreign/tensorflow/leveldb_table.h"

namespace transom {
namespace {

constexpr uint64_t kMaximumShards = 10'000;
constexpr size_t kMaximumAxes = 254;

// A message of the index.
WireReader wire_message(std::string_view bytes, const std::string& where) {
  return {bytes, where, "TensorFlow checkpoint"};
}
WireReader wire_message(std::span<const std::byte> bytes, const std::string& where) {
  return wire_message(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), where);
}

// TensorShapeProto: field 2 is an axis, whose field 1 is the extent.
std::vector<int64_t> read_shape(std::string_view bytes, const std::string& where) {
  std::vector<int64_t> shape;
  WireReader reader = wire_message(bytes, where);
  while (const auto field = reader.next()) {
    if (field->number != 2) continue;
    if (shape.size() == kMaximumAxes) fail("{}: a shape has more than {} axes", where, kMaximumAxes);
    shape.push_back(0);
    WireReader axis = wire_message(field->bytes, where);
    while (const auto size = axis.next())
      if (size->number == 1) shape.back() = static_cast<int64_t>(size->value);
  }
  return shape;
}

BundleEntry read_entry(std::span<const std::byte> bytes, const std::string& where) {
  BundleEntry entry;
  WireReader reader = wire_message(bytes, where);
  while (const auto field = reader.next()) switch (field->number) {
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
        if (field->type != WireField::Type::kFixed32) fail("{}: is damaged: a CRC that has not four bytes", where);
        entry.crc = static_cast<uint32_t>(field->value);
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
    WireReader reader = wire_message(value, where);
    while (const auto field = reader.next()) {
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
