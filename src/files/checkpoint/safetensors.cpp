// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/error.h"
#include "files/checkpoint/safetensors_header.h"

namespace transom {
namespace {

constexpr uint64_t kMaximumHeader = 100'000'000;

// What is written must be readable again: a defect of the caller's is found before a file is touched.
void check_view(const std::string& name, const TensorView& tensor) {
  uint64_t size = size_of(tensor.dtype);
  bool fits = true;
  for (const int64_t extent : tensor.shape)
    fits &= extent >= 0 && !__builtin_mul_overflow(size, static_cast<uint64_t>(extent), &size);
  if (!fits || size != tensor.bytes.size())
    fail(ErrorKind::kInternal, "tensor {}: shape [{}] of {} does not have the {} bytes that were given", quoted(name),
         fmt::join(tensor.shape, ", "), name_of(tensor.dtype), tensor.bytes.size());
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const fs::path& path) {
  const auto file = MappedFile::open(path);
  return parse(file->bytes(), path.string(), file);
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, const std::string& where,
                                       std::shared_ptr<const void> owner) {
  static_assert(std::endian::native == std::endian::little);
  if (bytes.size() < 8)
    fail("{}: is no safetensors file: it has {} bytes, the length of its header alone takes 8", where, bytes.size());
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), 8);
  if (header_size > kMaximumHeader)
    fail("{}: is no safetensors file: its header would have {} bytes, at most {} are allowed", where, header_size,
         kMaximumHeader);
  if (header_size > bytes.size() - 8)
    fail("{}: is cut off: its header has {} bytes, the file only {} behind it", where, header_size, bytes.size() - 8);
  const std::span<const std::byte> data = bytes.subspan(8 + header_size);
  SafetensorsHeader header =
      parse_safetensors_header({reinterpret_cast<const char*>(bytes.data()) + 8, header_size}, data.size(), where);

  SafetensorsFile result;
  result.metadata_ = std::move(header.metadata);
  for (SafetensorsHeader::Entry& entry : header.entries) {
    result.places_.emplace(entry.name, result.tensors_.size());
    result.tensors_.emplace_back(
        std::move(entry.name),
        TensorView{entry.dtype, std::move(entry.shape), data.subspan(entry.begin, entry.end - entry.begin), owner});
  }
  return result;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &tensors_[found->second].second;
}

void write_safetensors(const fs::path& path, const NamedViews& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const NamedViews::value_type*> order;
  std::set<std::string_view> names;
  for (const auto& item : tensors) {
    check_view(item.first, item.second);
    if (!names.insert(item.first).second)
      fail(ErrorKind::kInternal, "tensor {} would be written twice", quoted(item.first));
    order.push_back(&item);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const int x = safetensors_rank(a->second.dtype), y = safetensors_rank(b->second.dtype);
    return x != y ? x < y : a->first < b->first;
  });
  std::string text = print_safetensors_header(order, metadata);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t size = text.size();
  if (size > kMaximumHeader)
    fail("{}: its header would have {} bytes, at most {} are allowed", path.string(), size, kMaximumHeader);
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(text);
  for (const auto* item : order) file.write(item->second.bytes);
  file.commit();
}

}  // namespace transom
