// SPDX-License-Identifier: Apache-2.0
#include "files/foreign/flax/flax_writer.h"

#include <algorithm>

#include "base/error.h"
#include "files/foreign/flax/msgpack.h"

namespace transom {
namespace {

constexpr uint64_t kLargestArray = uint64_t{1} << 30;  // flax cuts what is larger into chunks
constexpr uint8_t kArrayExtension = 1;

void append_big_endian(std::string& to, uint64_t value, int bytes) {
  for (int shift = 8 * bytes - 8; shift >= 0; shift -= 8) to.push_back(static_cast<char>(value >> shift & 0xff));
}

// A tag with one, two or four bytes of length behind it; `tags` of them in this order, 0 where there is none.
void append_sized(std::string& to, uint64_t length, const uint8_t (&tags)[3]) {
  const int choice = length < 256 && tags[0] != 0 ? 0 : length < 65536 ? 1 : 2;
  to.push_back(static_cast<char>(tags[choice]));
  append_big_endian(to, length, 1 << choice);
}

void append_text(std::string& to, std::string_view text) {
  if (text.size() < 32) to.push_back(static_cast<char>(0xa0 | text.size()));
  else append_sized(to, text.size(), {0xd9, 0xda, 0xdb});
  to += text;
}

void append_map(std::string& to, uint64_t count) {
  if (count < 16) to.push_back(static_cast<char>(0x80 | count));
  else append_sized(to, count, {0, 0xde, 0xdf});
}

void append_integer(std::string& to, uint64_t value) {
  if (value < 128) to.push_back(static_cast<char>(value));
  else {
    to.push_back(static_cast<char>(0xcf));
    append_big_endian(to, value, 8);
  }
}

// The extension of an array up to its bytes.
std::string array_head(DType dtype, const std::vector<int64_t>& shape, uint64_t bytes) {
  std::string inside(1, static_cast<char>(0x93));
  if (shape.size() < 16) inside.push_back(static_cast<char>(0x90 | shape.size()));
  else append_sized(inside, shape.size(), {0, 0xdc, 0xdd});
  for (const int64_t extent : shape) append_integer(inside, static_cast<uint64_t>(extent));
  append_text(inside, *flax_name_of(dtype));
  append_sized(inside, bytes, {0xc4, 0xc5, 0xc6});
  std::string text;
  append_sized(text, inside.size() + bytes, {0xc7, 0xc8, 0xc9});
  text.push_back(static_cast<char>(kArrayExtension));
  return text + inside;
}

}  // namespace

void FlaxWriter::add(std::string_view path, DType dtype, std::vector<int64_t> shape,
                     std::function<TensorView()> values) {
  if (!flax_name_of(dtype)) fail(ErrorKind::kUnsupported, "{}: flax has no arrays of {}", quoted(path), name_of(dtype));
  Node* node = &root_;
  for (std::string_view left = path; !left.empty();) {
    const size_t end = std::min(left.find('/'), left.size());
    if (node->array >= 0) fail("{}: leads through an array", quoted(path));
    node = &node->children.try_emplace(std::string(left.substr(0, end))).first->second;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  if (node->array >= 0 || !node->children.empty()) fail("{}: comes twice", quoted(path));
  node->array = static_cast<int64_t>(arrays_.size());
  arrays_.push_back({dtype, std::move(shape), std::move(values)});
}

void FlaxWriter::write_array(const Array& array, AtomicFile& file) const {
  const TensorView view = array.values();
  const uint64_t size = view.bytes.size(), width = size_of(array.dtype);
  if (size <= kLargestArray) {
    file.write(array_head(array.dtype, array.shape, size));
    file.write(view.bytes);
    return;
  }
  // Tuples are maps by number.
  const uint64_t step = kLargestArray / width * width;
  std::string text;
  append_map(text, 3);
  append_text(text, "__msgpack_chunked_array__");
  text.push_back(static_cast<char>(0xc3));
  append_text(text, "shape");
  append_map(text, array.shape.size());
  for (size_t i = 0; i < array.shape.size(); ++i) {
    append_text(text, std::to_string(i));
    append_integer(text, static_cast<uint64_t>(array.shape[i]));
  }
  append_text(text, "chunks");
  append_map(text, (size + step - 1) / step);
  file.write(text);
  for (uint64_t begin = 0, i = 0; begin < size; begin += step, ++i) {
    const uint64_t bytes = std::min(step, size - begin);
    std::string head;
    append_text(head, std::to_string(i));
    head += array_head(array.dtype, {static_cast<int64_t>(bytes / width)}, bytes);
    file.write(head);
    file.write(view.bytes.subspan(begin, bytes));
  }
}

void FlaxWriter::write_node(const Node& node, AtomicFile& file) const {
  if (node.array >= 0) return write_array(arrays_[static_cast<size_t>(node.array)], file);
  std::string text;
  append_map(text, node.children.size());
  file.write(text);
  for (const auto& [key, child] : node.children) {
    std::string name;
    append_text(name, key);
    file.write(name);
    write_node(child, file);
  }
}

void FlaxWriter::write(const fs::path& path) const {
  AtomicFile file(path);
  write_node(root_, file);
  file.commit();
}

}  // namespace transom
