// SPDX-License-Identifier: Apache-2.0
// HDF5 File Format Specification 2.0.
#include "files/foreign/tensorflow/hdf5_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace transom {
namespace {

constexpr uint64_t kNowhere = ~uint64_t{0}, kDataAlignment = 64;
constexpr size_t kInternalNodes = 16, kSuperblockBytes = 96, kSymbolBytes = 40;
constexpr size_t kMaximumAttribute = 60'000;  // a message has less than 64 KiB
enum MessageType : uint16_t {
  kDataspaceMessage = 0x01,
  kDatatypeMessage = 0x03,
  kFillValueMessage = 0x05,
  kLayoutMessage = 0x08,
  kAttributeMessage = 0x0c,
  kSymbolTableMessage = 0x11
};

template <typename T>
void append_number(std::string& to, T value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}

void pad_to_eight(std::string& text) { text.resize((text.size() + 7) / 8 * 8, '\0'); }

std::string dataspace(const std::vector<int64_t>& shape) {
  std::string text{1, static_cast<char>(shape.size()), 0, 0, 0, 0, 0, 0};
  for (const int64_t extent : shape) append_number(text, static_cast<uint64_t>(extent));
  return text;
}

std::string datatype_head(uint8_t kind, std::string_view bits, size_t size) {
  std::string text(1, static_cast<char>(0x10 | kind));
  text.append(bits);
  append_number(text, static_cast<uint32_t>(size));
  return text;
}

std::string text_datatype(size_t size) { return datatype_head(3, std::string_view("\x01\x00\x00", 3), size); }

std::string integer_datatype(size_t size, bool is_signed) {
  std::string text = datatype_head(0, std::string_view(is_signed ? "\x08\x00\x00" : "\x00\x00\x00", 3), size);
  append_number(text, uint16_t{0});
  append_number(text, static_cast<uint16_t>(8 * size));
  return text;
}

// IEEE 754: sign, exponent, and a mantissa whose first bit is implied.
std::string float_datatype(size_t size, uint8_t mantissa) {
  const auto bits = static_cast<uint8_t>(8 * size), exponent = static_cast<uint8_t>(bits - 1 - mantissa);
  std::string text = datatype_head(1, std::string{0x20, static_cast<char>(bits - 1), 0}, size);
  append_number(text, uint16_t{0});
  append_number(text, uint16_t{bits});
  for (const uint8_t number : {mantissa, exponent, uint8_t{0}, mantissa}) append_number(text, number);
  append_number(text, static_cast<uint32_t>((1u << (exponent - 1)) - 1));
  return text;
}

std::string datatype(DType dtype, std::string_view path) {
  switch (dtype) {
    case DType::kFloat64:
      return float_datatype(8, 52);
    case DType::kFloat32:
      return float_datatype(4, 23);
    case DType::kFloat16:
      return float_datatype(2, 10);
    case DType::kInt64:
      return integer_datatype(8, true);
    case DType::kInt32:
      return integer_datatype(4, true);
    case DType::kInt8:
      return integer_datatype(1, true);
    case DType::kUInt8:
      return integer_datatype(1, false);
    default:
      fail(ErrorKind::kUnsupported, "{}: HDF5 has no type for {}; expected float32, float64, float16 or integers",
           quoted(path), name_of(dtype));
  }
}

std::string message(MessageType type, std::string body) {
  pad_to_eight(body);
  std::string text;
  append_number(text, static_cast<uint16_t>(type));
  append_number(text, static_cast<uint16_t>(body.size()));
  append_number(text, uint32_t{0});
  return text + body;
}

std::string attribute(std::string_view name, std::string type, std::string space, std::string_view data) {
  std::string text{1, 0};
  append_number(text, static_cast<uint16_t>(name.size() + 1));
  append_number(text, static_cast<uint16_t>(type.size()));
  append_number(text, static_cast<uint16_t>(space.size()));
  text.append(name);
  text.push_back('\0');
  pad_to_eight(text);
  pad_to_eight(type);
  pad_to_eight(space);
  return message(kAttributeMessage, text + type + space + std::string(data));
}

std::string texts_attribute(std::string_view name, const std::vector<std::string>& texts, size_t begin, size_t end,
                            size_t width) {
  std::string data;
  for (size_t i = begin; i < end; ++i) {
    data += texts[i];
    data.append(width - texts[i].size(), '\0');
  }
  return attribute(name, text_datatype(width), dataspace({static_cast<int64_t>(end - begin)}), data);
}

}  // namespace

// All of the file but the values of its datasets.
struct Hdf5Writer::Head {
  std::string text;
  std::vector<std::pair<size_t, size_t>> places;  // where the address of a dataset's values stands, and the dataset
  size_t leaf_symbols = 8;                        // that a symbol node has room for
  std::map<int64_t, uint64_t> headers;            // of datasets that are written

  uint64_t begin() {
    pad_to_eight(text);
    return text.size();
  }
  uint64_t add_header(const std::vector<std::string>& messages, uint32_t names = 1) {
    const uint64_t at = begin();
    size_t size = 0;
    for (const std::string& each : messages) size += each.size();
    append_number(text, uint16_t{1});
    append_number(text, static_cast<uint16_t>(messages.size()));
    append_number(text, names);  // that lead here
    append_number(text, static_cast<uint32_t>(size));
    append_number(text, uint32_t{0});
    for (const std::string& each : messages) text += each;
    return at;
  }
};

Hdf5Writer::Node& Hdf5Writer::group(std::string_view path) {
  Node* node = &root_;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (node->dataset >= 0) fail("{}: leads through a dataset", quoted(path));
    node = &node->children.try_emplace(std::string(path.substr(0, end))).first->second;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return *node;
}

Hdf5Writer::Node& Hdf5Writer::place_of_dataset(std::string_view path) {
  Node& node = group(path);
  if (!node.children.empty() || node.dataset >= 0) fail("{}: comes twice", quoted(path));
  return node;
}

void Hdf5Writer::add_dataset(std::string_view path, DType dtype, std::vector<int64_t> shape,
                             std::function<TensorView()> values) {
  datatype(dtype, path);
  uint64_t bytes = size_of(dtype);
  for (const int64_t extent : shape) bytes *= static_cast<uint64_t>(extent);
  place_of_dataset(path).dataset = static_cast<int64_t>(datasets_.size());
  datasets_.push_back({dtype, std::move(shape), bytes, std::move(values)});
}

void Hdf5Writer::add_link(std::string_view path, std::string_view of) {
  const int64_t dataset = group(of).dataset;
  if (dataset < 0) fail("{}: is no dataset", quoted(of));
  place_of_dataset(path).dataset = dataset;
  ++datasets_[static_cast<size_t>(dataset)].names;
}

void Hdf5Writer::add_text(std::string_view at, std::string name, std::string_view text) {
  const std::string data = text.empty() ? std::string(1, '\0') : std::string(text);
  group(at).attributes.push_back(attribute(name, text_datatype(data.size()), dataspace({}), data));
}

void Hdf5Writer::add_texts(std::string_view at, const std::string& name, const std::vector<std::string>& texts) {
  size_t width = 1;
  for (const std::string& text : texts) width = std::max(width, text.size());
  const size_t fit = std::max<size_t>(1, kMaximumAttribute / width);
  std::vector<std::string>& attributes = group(at).attributes;
  if (texts.size() <= fit) {
    attributes.push_back(texts_attribute(name, texts, 0, texts.size(), width));
    return;
  }
  for (size_t begin = 0, part = 0; begin < texts.size(); begin += fit, ++part)
    attributes.push_back(
        texts_attribute(name + std::to_string(part), texts, begin, std::min(begin + fit, texts.size()), width));
}

uint64_t Hdf5Writer::write_node(const Node& node, Head& head) const {
  return node.dataset >= 0 ? write_dataset(node, head) : write_group(node, head);
}

uint64_t Hdf5Writer::write_dataset(const Node& node, Head& head) const {
  const auto [header, is_new] = head.headers.try_emplace(node.dataset);
  if (!is_new) return header->second;
  const Dataset& dataset = datasets_[static_cast<size_t>(node.dataset)];
  std::string layout{3, 1};  // in one piece
  append_number(layout, kNowhere);
  append_number(layout, dataset.bytes);
  std::vector<std::string> messages{message(kDataspaceMessage, dataspace(dataset.shape)),
                                    message(kDatatypeMessage, datatype(dataset.dtype, "")),
                                    message(kFillValueMessage, std::string{2, 2, 2, 1, 0, 0, 0, 0})};
  size_t before = 16;
  for (const std::string& each : messages) before += each.size();
  messages.push_back(message(kLayoutMessage, layout));
  const uint64_t at = header->second = head.add_header(messages, dataset.names);
  if (dataset.bytes > 0) head.places.emplace_back(at + before + 8 + 2, static_cast<size_t>(node.dataset));
  return at;
}

// A heap of names, symbol nodes with their places, and a tree of one level over these.
uint64_t Hdf5Writer::write_group(const Node& node, Head& head) const {
  struct Symbol {
    uint64_t name, header;
  };
  std::string names(8, '\0');  // the empty name goes first
  std::vector<Symbol> symbols;
  for (const auto& [name, child] : node.children) {
    const uint64_t header = write_node(child, head);
    symbols.push_back({names.size(), header});
    names += name;
    names.push_back('\0');
    pad_to_eight(names);
  }

  const uint64_t heap = head.begin();
  head.text += std::string("HEAP\0\0\0\0", 8);
  append_number(head.text, static_cast<uint64_t>(names.size()));
  append_number(head.text, uint64_t{1});  // nothing in it is free
  append_number(head.text, heap + 32);
  head.text += names;

  std::vector<uint64_t> leaves, last_names;
  for (size_t begin = 0; begin < symbols.size(); begin += head.leaf_symbols) {
    const size_t end = std::min(begin + head.leaf_symbols, symbols.size());
    leaves.push_back(head.begin());
    last_names.push_back(symbols[end - 1].name);
    std::string leaf("SNOD\1\0", 6);
    append_number(leaf, static_cast<uint16_t>(end - begin));
    for (size_t i = begin; i < end; ++i) {
      append_number(leaf, symbols[i].name);
      append_number(leaf, symbols[i].header);
      leaf.append(kSymbolBytes - 16, '\0');
    }
    leaf.resize(8 + head.leaf_symbols * kSymbolBytes, '\0');
    head.text += leaf;
  }

  const uint64_t tree = head.begin();
  std::string nodes("TREE\0\0", 6);
  append_number(nodes, static_cast<uint16_t>(leaves.size()));
  append_number(nodes, kNowhere);
  append_number(nodes, kNowhere);
  append_number(nodes, uint64_t{0});
  for (size_t i = 0; i < leaves.size(); ++i) {
    append_number(nodes, leaves[i]);
    append_number(nodes, last_names[i]);
  }
  nodes.resize(24 + (2 * kInternalNodes + 1) * 8 + 2 * kInternalNodes * 8, '\0');
  head.text += nodes;

  std::string table;
  append_number(table, tree);
  append_number(table, heap);
  std::vector<std::string> messages{message(kSymbolTableMessage, table)};
  messages.insert(messages.end(), node.attributes.begin(), node.attributes.end());
  return head.add_header(messages);
}

void Hdf5Writer::write(const fs::path& path) {
  Head head;
  // One level of a tree names up to 32 symbol nodes; these are as large as the largest group needs.
  const auto largest = [](const auto& self, const Node& node) -> size_t {
    size_t most = node.children.size();
    for (const auto& [name, child] : node.children) most = std::max(most, self(self, child));
    return most;
  };
  const size_t members = largest(largest, root_), fit = 2 * kInternalNodes;
  head.leaf_symbols = 2 * std::max<size_t>(4, (members + 2 * fit - 1) / (2 * fit));
  if (head.leaf_symbols > 2 * UINT16_MAX) fail("{}: a group of {} members is too large", path.string(), members);

  head.text.assign(kSuperblockBytes, '\0');
  const uint64_t root = write_group(root_, head);
  uint64_t end = (head.text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  head.text.resize(end, '\0');
  std::vector<uint64_t> begins(datasets_.size());
  for (size_t i = 0; i < datasets_.size(); ++i) {
    begins[i] = end;
    end += (datasets_[i].bytes + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  }
  for (const auto& [at, dataset] : head.places) std::memcpy(head.text.data() + at, &begins[dataset], sizeof(uint64_t));

  std::string superblock("\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0", 16);
  append_number(superblock, static_cast<uint16_t>(head.leaf_symbols / 2));
  append_number(superblock, static_cast<uint16_t>(kInternalNodes));
  append_number(superblock, uint32_t{0});
  for (const uint64_t number : {uint64_t{0}, kNowhere, end, kNowhere, uint64_t{0}, root})
    append_number(superblock, number);
  head.text.replace(0, superblock.size(), superblock);

  AtomicFile file(path);
  file.write(head.text);
  for (const Dataset& dataset : datasets_) {
    const TensorView values = dataset.values();
    if (values.bytes.size() != dataset.bytes)
      fail(ErrorKind::kInternal, "{}: a dataset has {} bytes, expected {}", path.string(), values.bytes.size(),
           dataset.bytes);
    file.write(values.bytes);
    file.write(std::string((kDataAlignment - dataset.bytes % kDataAlignment) % kDataAlignment, '\0'));
  }
  file.commit();
}

}  // namespace transom
