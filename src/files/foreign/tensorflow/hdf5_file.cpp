// SPDX-License-Identifier: Apache-2.0
#include "files/foreign/tensorflow/hdf5_file.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "files/foreign/byte_range.h"

namespace transom {
namespace {

constexpr uint64_t kUndefined = ~uint64_t{0};
constexpr int kMaximumDepth = 32;
constexpr size_t kMaximumDatasets = 200'000, kMaximumMessages = 4096, kMaximumName = 4096;

// Types of messages in an object header.
enum Message : uint16_t {
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kLayout = 0x08,
  kFilters = 0x0b,
  kContinuation = 0x10,
  kSymbolTable = 0x11
};

struct Group {
  uint64_t tree, heap;
};
struct Dataset {
  std::optional<std::vector<int64_t>> shape;
  std::optional<uint64_t> datatype, layout;  // where their messages are
};

class Hdf5Reader {
 public:
  Hdf5Reader(std::span<const std::byte> bytes, const std::string& where, std::shared_ptr<const void> owner)
      : file_(bytes, where), owner_(std::move(owner)) {}

  NamedViews read() {
    if (!file_.holds(0, "\x89HDF\r\n\x1a\n")) fail("{}: is no HDF5 file: it begins with other bytes", where());
    const auto version = file_.number<uint8_t>(8, "the superblock");
    if (version > 1)
      fail(
          "{}: has an HDF5 superblock of version {}, expected 0 or 1, which Keras writes; save it again with "
          "libver='earliest'",
          where(), version);
    const auto offsets = file_.number<uint8_t>(13, "the superblock"),
               lengths = file_.number<uint8_t>(14, "the superblock");
    if (offsets != 8 || lengths != 8)
      fail("{}: has offsets of {} and lengths of {} bytes, expected 8", where(), offsets, lengths);
    const uint64_t addresses = version == 0 ? 24 : 28;
    base_ = file_.number<uint64_t>(addresses, "the superblock");
    if (const uint64_t end = address(file_.number<uint64_t>(addresses + 16, "the superblock")); end > file_.size())
      fail("{}: is cut off: it should have {} bytes, and has {}", where(), end, file_.size());
    object(address(file_.number<uint64_t>(addresses + 32 + 8, "the root group")), "", 0);
    return std::move(result_);
  }

 private:
  const std::string& where() const { return file_.where(); }

  uint64_t address(uint64_t relative) const {
    uint64_t absolute = 0;
    return __builtin_add_overflow(relative, base_, &absolute) ? kUndefined : absolute;
  }

  // A group, whose members follow, or a dataset.
  void object(uint64_t header, const std::string& path, int depth) {
    if (depth > kMaximumDepth) fail("{}: {}: groups lie more than {} deep", where(), quoted(path), kMaximumDepth);
    if (datasets_.contains(header)) return;  // a second name of the same
    if (!visited_.insert(header).second) fail("{}: {}: is reached twice", where(), quoted(path));
    if (file_.holds(header, "OHDR"))
      fail("{}: {}: has an object header of version 2, expected 1, which Keras writes", where(), quoted(path));
    const auto version = file_.number<uint8_t>(header, "an object header");
    if (version != 1) fail("{}: {}: object header: expected version 1, found {}", where(), quoted(path), version);
    const auto count = file_.number<uint16_t>(header + 2, "an object header");
    const auto size = file_.number<uint32_t>(header + 8, "an object header");

    std::optional<Group> group;
    Dataset dataset;
    std::vector<std::pair<uint64_t, uint64_t>> blocks{{header + 16, size}};
    size_t messages = 0;
    for (size_t i = 0; i < blocks.size() && messages < count; ++i) {
      auto [at, left] = blocks[i];
      file_.at(at, left, "an object header");
      while (left >= 8 && messages < count) {
        const auto type = file_.number<uint16_t>(at, "a message"), length = file_.number<uint16_t>(at + 2, "a message");
        if (uint64_t{length} + 8 > left || ++messages > kMaximumMessages)
          fail("{}: {}: an object header's messages do not fit it", where(), quoted(path));
        const uint64_t body = at + 8;
        if (type == kContinuation)
          blocks.emplace_back(address(file_.number<uint64_t>(body, "a continuation")),
                              file_.number<uint64_t>(body + 8, "a continuation"));
        if (type == kLinkInfo)
          fail("{}: {}: is a group in the newer form, which Keras does not write", where(), quoted(path));
        if (type == kFilters) fail("{}: {}: is compressed; expected plain data", where(), quoted(path));
        if (type == kSymbolTable)
          group = Group{address(file_.number<uint64_t>(body, "a group")),
                        address(file_.number<uint64_t>(body + 8, "a group"))};
        if (type == kDataspace) dataset.shape = shape(body, path);
        if (type == kDatatype) dataset.datatype = body;
        if (type == kLayout) dataset.layout = body;
        at = body + length;
        left -= uint64_t{length} + 8;
      }
    }
    if (group) return members(*group, path, depth);
    if (!dataset.shape || !dataset.datatype || !dataset.layout)
      fail("{}: {}: is neither a group nor a dataset", where(), quoted(path));
    add(dataset, path);
    datasets_.insert(header);
  }

  std::vector<int64_t> shape(uint64_t at, const std::string& path) const {
    const auto version = file_.number<uint8_t>(at, "a dataspace"), rank = file_.number<uint8_t>(at + 1, "a dataspace");
    if (version != 1 && version != 2)
      fail("{}: {}: dataspace: expected version 1 or 2, found {}", where(), quoted(path), version);
    if (rank > 32) fail("{}: {}: has {} axes, at most 32 are allowed", where(), quoted(path), rank);
    std::vector<int64_t> result;
    for (uint64_t i = 0; i < rank; ++i)
      result.push_back(file_.number<int64_t>(at + (version == 1 ? 8 : 4) + 8 * i, "a dataspace"));
    return result;
  }

  DType dtype(uint64_t at, const std::string& path) const {
    const auto head = file_.number<uint32_t>(at, "a datatype"), size = file_.number<uint32_t>(at + 4, "a datatype");
    const uint32_t kind = head & 0xf;
    const bool big_endian = (head >> 8 & 1) != 0, is_signed = (head >> 11 & 1) != 0;
    if (kind <= 1 && !big_endian) {
      if (kind == 0 && size == 8 && is_signed) return DType::kInt64;
      if (kind == 0 && size == 4 && is_signed) return DType::kInt32;
      if (kind == 0 && size == 1) return is_signed ? DType::kInt8 : DType::kUInt8;
      // Exponent and mantissa tell bfloat16 from half.
      const uint8_t exponent = kind == 1 ? file_.number<uint8_t>(at + 13, "a datatype") : 0;
      if (kind == 1 && size == 4 && exponent == 8) return DType::kFloat32;
      if (kind == 1 && size == 8 && exponent == 11) return DType::kFloat64;
      if (kind == 1 && size == 2 && exponent == 5) return DType::kFloat16;
      if (kind == 1 && size == 2 && exponent == 8) return DType::kBFloat16;
    }
    fail("{}: {}: expected little-endian numbers, found HDF5 datatype class {} of {} bytes", where(), quoted(path),
         kind, size);
  }

  void add(const Dataset& dataset, const std::string& path) {
    if (result_.size() >= kMaximumDatasets) fail("{}: holds more than {} datasets", where(), kMaximumDatasets);
    TensorView view{dtype(*dataset.datatype, path), *dataset.shape, {}, owner_};
    const uint64_t at = *dataset.layout;
    const auto version = file_.number<uint8_t>(at, "a layout"), form = file_.number<uint8_t>(at + 1, "a layout");
    if (version < 3 || version > 4)
      fail("{}: {}: data layout: expected version 3 or 4, found {}", where(), quoted(path), version);
    if (form > 1) fail("{}: {}: lies in chunks; expected data in one piece", where(), quoted(path));
    const uint64_t begin = form == 0 ? at + 4 : address(file_.number<uint64_t>(at + 2, "a layout"));
    const uint64_t length =
        form == 0 ? file_.number<uint16_t>(at + 2, "a layout") : file_.number<uint64_t>(at + 10, "a layout");
    const uint64_t size = checked_bytes(view.shape, size_of(view.dtype), file_.size(), where() + ": " + quoted(path));
    if (size != 0) {
      if (length < size) fail("{}: {}: has {} bytes, its shape needs {}", where(), quoted(path), length, size);
      view.bytes = file_.at(begin, size, "a dataset");
    }
    taken_ += size;
    if (taken_ > file_.size()) fail("{}: {}: datasets lie on each other", where(), quoted(path));
    result_.emplace_back(path, std::move(view));
  }

  void members(const Group& group, const std::string& path, int depth) {
    if (!file_.holds(group.heap, "HEAP")) fail("{}: {}: group: expected a heap of names", where(), quoted(path));
    const auto names_size = file_.number<uint64_t>(group.heap + 8, "a heap");
    const uint64_t names = address(file_.number<uint64_t>(group.heap + 24, "a heap"));
    tree(group.tree, file_.at(names, names_size, "a heap"), path, depth, 0);
  }

  // A B-tree of version 1, whose leaves are symbol nodes.
  void tree(uint64_t at, std::span<const std::byte> names, const std::string& path, int depth, int level) {
    if (level > kMaximumDepth) fail("{}: {}: group: its tree is too deep", where(), quoted(path));
    if (!visited_.insert(at).second) fail("{}: {}: group: its tree leads in a circle", where(), quoted(path));
    if (file_.holds(at, "SNOD")) return symbols(at, names, path, depth);
    if (!file_.holds(at, "TREE")) fail("{}: {}: group: expected a tree node at {}", where(), quoted(path), at);
    const auto used = file_.number<uint16_t>(at + 6, "a tree node");
    for (uint64_t i = 0; i < used; ++i)
      tree(address(file_.number<uint64_t>(at + 32 + 16 * i, "a tree node")), names, path, depth, level + 1);
  }

  void symbols(uint64_t at, std::span<const std::byte> names, const std::string& path, int depth) {
    const auto count = file_.number<uint16_t>(at + 6, "a symbol node");
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t entry = at + 8 + 40 * i;
      const auto offset = file_.number<uint64_t>(entry, "a symbol");
      if (offset >= names.size()) fail("{}: {}: group: a name lies outside of its heap", where(), quoted(path));
      const std::string_view text(reinterpret_cast<const char*>(names.data()) + offset, names.size() - offset);
      const size_t end = text.find('\0');
      if (end == text.npos || end > kMaximumName) fail("{}: {}: group: a name has no end", where(), quoted(path));
      if (file_.number<uint32_t>(entry + 16, "a symbol") == 2)
        fail("{}: {}: is a soft link; expected a group or a dataset", where(), quoted(text.substr(0, end)));
      const std::string name =
          path.empty() ? std::string(text.substr(0, end)) : path + "/" + std::string(text.substr(0, end));
      object(address(file_.number<uint64_t>(entry + 8, "a symbol")), name, depth + 1);
    }
  }

  ByteRange file_;
  std::shared_ptr<const void> owner_;
  uint64_t base_ = 0, taken_ = 0;
  std::set<uint64_t> visited_, datasets_;
  NamedViews result_;
};

}  // namespace

NamedViews parse_hdf5(std::span<const std::byte> bytes, const std::string& where, std::shared_ptr<const void> owner) {
  return Hdf5Reader(bytes, where, std::move(owner)).read();
}

NamedViews read_hdf5(const fs::path& path) {
  const auto file = MappedFile::open(path);
  return parse_hdf5(file->bytes(), path.string(), file);
}

}  // namespace transom
