// SPDX-License-Identifier: Apache-2.0
#include "files/foreign/flax/msgpack.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "files/foreign/byte_range.h"

namespace transom {
namespace {

constexpr int kMaximumNesting = 64;
constexpr size_t kMaximumArrays = 200'000, kMaximumPath = 4096, kMostAxes = 64;
constexpr int8_t kArray = 1;  // flax's extension type of arrays
constexpr const char* kChunked = "__msgpack_chunked_array__";

constexpr std::pair<std::string_view, DType> kElementTypes[] = {
    {"float32", DType::kFloat32},   {"float64", DType::kFloat64}, {"float16", DType::kFloat16},
    {"bfloat16", DType::kBFloat16}, {"int64", DType::kInt64},     {"int32", DType::kInt32},
    {"int8", DType::kInt8},         {"uint8", DType::kUInt8},     {"bool", DType::kBool}};

std::optional<DType> numpy_dtype(std::string_view name) {
  for (const auto& [text, dtype] : kElementTypes)
    if (text == name) return dtype;
  return {};
}

// One value: what kind it is, its number or length, and the bytes of texts, binaries and extensions.
struct Head {
  enum Kind { kNil, kBool, kInt, kFloat, kText, kBinary, kList, kMap, kExtension } kind;
  int64_t number = 0;  // of an integer; the type of an extension
  uint64_t length = 0;
  std::span<const std::byte> bytes;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& where) : left_(bytes), where_(where) {}

  Head next() {
    const auto tag = static_cast<uint8_t>(take(1)[0]);
    if (tag <= 0x7f) return {Head::kInt, tag, 0, {}};
    if (tag >= 0xe0) return {Head::kInt, static_cast<int8_t>(tag), 0, {}};
    if (tag <= 0x8f) return {Head::kMap, 0, tag & 0xfu, {}};
    if (tag <= 0x9f) return {Head::kList, 0, tag & 0xfu, {}};
    if (tag <= 0xbf) return sized(Head::kText, tag & 0x1fu);
    switch (tag) {
      case 0xc0:
        return {Head::kNil, 0, 0, {}};
      case 0xc2:
      case 0xc3:
        return {Head::kBool, tag & 1, 0, {}};
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return sized(Head::kBinary, number(1u << (tag - 0xc4)));
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return extension(number(1u << (tag - 0xc7)));
      case 0xca:
        take(4);
        return {Head::kFloat, 0, 0, {}};
      case 0xcb:
        take(8);
        return {Head::kFloat, 0, 0, {}};
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf:
        return {Head::kInt, static_cast<int64_t>(number(1u << (tag - 0xcc))), 0, {}};
      case 0xd0:
        return {Head::kInt, static_cast<int8_t>(number(1)), 0, {}};
      case 0xd1:
        return {Head::kInt, static_cast<int16_t>(number(2)), 0, {}};
      case 0xd2:
        return {Head::kInt, static_cast<int32_t>(number(4)), 0, {}};
      case 0xd3:
        return {Head::kInt, static_cast<int64_t>(number(8)), 0, {}};
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return extension(uint64_t{1} << (tag - 0xd4));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return sized(Head::kText, number(1u << (tag - 0xd9)));
      case 0xdc:
        return {Head::kList, 0, number(2), {}};
      case 0xdd:
        return {Head::kList, 0, number(4), {}};
      case 0xde:
        return {Head::kMap, 0, number(2), {}};
      case 0xdf:
        return {Head::kMap, 0, number(4), {}};
      default:
        fail("{}: is damaged: the byte {:#x} begins no value of MessagePack", where_, tag);
    }
  }

  std::string_view text(const char* what) {
    const Head head = next();
    if (head.kind != Head::kText) fail("{}: expected {}", where_, what);
    return {reinterpret_cast<const char*>(head.bytes.data()), head.bytes.size()};
  }
  void skip(int depth) { skip(next(), depth); }
  void skip(const Head& head, int depth) {
    if (depth > kMaximumNesting) fail("{}: nests more than {} deep", where_, kMaximumNesting);
    const uint64_t count = head.kind == Head::kMap ? 2 * head.length : head.kind == Head::kList ? head.length : 0;
    for (uint64_t i = 0; i < count; ++i) skip(depth + 1);
  }
  bool at_end() const { return left_.empty(); }

 private:
  std::span<const std::byte> take(uint64_t count) {
    if (count > left_.size())
      fail("{}: is cut off or damaged: {} bytes are to come, {} are there", where_, count, left_.size());
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  uint64_t number(uint64_t width) {
    uint64_t value = 0;
    for (const std::byte byte : take(width)) value = value << 8 | static_cast<uint64_t>(byte);
    return value;
  }
  Head sized(Head::Kind kind, uint64_t length) { return {kind, 0, length, take(length)}; }
  Head extension(uint64_t length) {
    const auto type = static_cast<int8_t>(take(1)[0]);
    return {Head::kExtension, type, length, take(length)};
  }

  std::span<const std::byte> left_;
  const std::string& where_;
};

class FlaxReader {
 public:
  FlaxReader(std::span<const std::byte> bytes, const std::string& where, std::shared_ptr<const void> owner)
      : reader_(bytes, where), where_(where), size_(bytes.size()), owner_(std::move(owner)) {}

  NamedViews read() {
    const Head root = reader_.next();
    if (root.kind != Head::kMap) fail("{}: is no Flax checkpoint: expected a map of parameters", where_);
    map(root.length, "", 0);
    if (!reader_.at_end()) fail("{}: has bytes behind its map of parameters", where_);
    return std::move(result_);
  }

 private:
  void map(uint64_t count, const std::string& path, int depth) {
    if (depth > kMaximumNesting) fail("{}: {}: maps lie more than {} deep", where_, quoted(path), kMaximumNesting);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string_view key = reader_.text("the name of a parameter");
      if (key == kChunked) return chunked(count, i, path, depth);
      if (path.size() + key.size() > kMaximumPath) fail("{}: {}: its name is too long", where_, quoted(path));
      const std::string name = path.empty() ? std::string(key) : path + "/" + std::string(key);
      const Head head = reader_.next();
      if (head.kind == Head::kMap) map(head.length, name, depth + 1);
      else if (head.kind == Head::kExtension && head.number == kArray) add(name, array(head.bytes, name));
      else reader_.skip(head, depth + 1);
    }
  }

  // The rest of a map {__msgpack_chunked_array__: true, shape: {0: n, ...}, chunks: {0: array, ...}}.
  void chunked(uint64_t count, uint64_t place, const std::string& path, int depth) {
    reader_.skip(depth + 1);
    std::vector<int64_t> shape;
    std::map<int64_t, TensorView> chunks;
    for (uint64_t i = place + 1; i < count; ++i) {
      const std::string_view key = reader_.text("shape or chunks");
      const Head head = reader_.next();
      if ((key != "shape" && key != "chunks") || head.kind != Head::kMap) {
        reader_.skip(head, depth + 1);
        continue;
      }
      for (uint64_t k = 0; k < head.length; ++k) {
        const int64_t number = place_of(reader_.text("the place of a chunk"), path);
        const Head value = reader_.next();
        if (key == "shape") {
          if (value.kind != Head::kInt || number != static_cast<int64_t>(shape.size()) || shape.size() == kMostAxes)
            fail("{}: {}: a chunked array has no proper shape", where_, quoted(path));
          shape.push_back(value.number);
        } else {
          if (value.kind != Head::kExtension || value.number != kArray)
            fail("{}: {}: chunk {} is no array", where_, quoted(path), number);
          chunks.emplace(number, array(value.bytes, path));
        }
      }
    }
    if (chunks.empty()) fail("{}: {}: has no chunks", where_, quoted(path));
    const DType dtype = chunks.begin()->second.dtype;
    const uint64_t size = checked_bytes(shape, size_of(dtype), size_, where_ + ": " + quoted(path));
    const auto joined = std::make_shared<std::vector<std::byte>>();
    joined->reserve(size);
    for (const auto& [number, chunk] : chunks) {
      if (chunk.dtype != dtype || joined->size() + chunk.bytes.size() > size)
        fail("{}: {}: its chunks do not make its shape [{}]", where_, quoted(path), fmt::join(shape, ", "));
      joined->insert(joined->end(), chunk.bytes.begin(), chunk.bytes.end());
    }
    if (joined->size() != size)
      fail("{}: {}: its chunks do not make its shape [{}]", where_, quoted(path), fmt::join(shape, ", "));
    add(path, {dtype, shape, *joined, joined});
  }

  int64_t place_of(std::string_view digits, const std::string& path) const {
    int64_t value = 0;
    if (digits.empty() || digits.size() > 9)
      fail("{}: {}: {} is no number of a chunk", where_, quoted(path), quoted(digits));
    for (const char digit : digits) {
      if (digit < '0' || digit > '9') fail("{}: {}: {} is no number of a chunk", where_, quoted(path), quoted(digits));
      value = value * 10 + (digit - '0');
    }
    return value;
  }

  // The payload is MessagePack once more: [shape, name of the type, bytes].
  TensorView array(std::span<const std::byte> bytes, const std::string& path) const {
    const std::string where = where_ + ": " + quoted(path);
    Reader reader(bytes, where);
    const Head list = reader.next();
    if (list.kind != Head::kList || list.length != 3) fail("{}: expected [shape, type, bytes]", where);
    const Head axes = reader.next();
    if (axes.kind != Head::kList || axes.length > kMostAxes) fail("{}: expected a shape", where);
    TensorView view{DType::kFloat32, {}, {}, owner_};
    for (uint64_t i = 0; i < axes.length; ++i) {
      const Head extent = reader.next();
      if (extent.kind != Head::kInt) fail("{}: expected a shape of integers", where);
      view.shape.push_back(extent.number);
    }
    const std::string_view name = reader.text("the name of an element type");
    const auto dtype = numpy_dtype(name);
    if (!dtype) fail("{}: element type {} is not known", where, quoted(name));
    view.dtype = *dtype;
    const Head values = reader.next();
    if (values.kind != Head::kBinary) fail("{}: expected bytes", where);
    const uint64_t size = checked_bytes(view.shape, size_of(view.dtype), values.length, where);
    if (size != values.length) fail("{}: has {} bytes, its shape needs {}", where, values.length, size);
    view.bytes = values.bytes;
    return view;
  }

  void add(const std::string& path, TensorView view) {
    if (result_.size() >= kMaximumArrays) fail("{}: holds more than {} arrays", where_, kMaximumArrays);
    result_.emplace_back(path, std::move(view));
  }

  Reader reader_;
  const std::string& where_;
  uint64_t size_;
  std::shared_ptr<const void> owner_;
  NamedViews result_;
};

}  // namespace

std::optional<std::string_view> flax_name_of(DType dtype) {
  for (const auto& [text, type] : kElementTypes)
    if (type == dtype) return text;
  return {};
}

NamedViews parse_flax_msgpack(std::span<const std::byte> bytes, const std::string& where,
                              std::shared_ptr<const void> owner) {
  return FlaxReader(bytes, where, std::move(owner)).read();
}

NamedViews read_flax_msgpack(const fs::path& path) {
  const auto file = MappedFile::open(path);
  return parse_flax_msgpack(file->bytes(), path.string(), file);
}

}  // namespace transom
