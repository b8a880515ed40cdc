// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/torch_file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "files/checkpoint/torch_legacy.h"

namespace transom {
namespace {

// What a file may grow to by inflating and by tensors that repeat elements: the factor of its size, and in bytes what
// the smallest file may.
constexpr uint64_t kMaximumGrowth = 16, kAlwaysAllowed = uint64_t{1} << 26;

// The tensor's elements out of its storage: a view if they lie densely in order, else a dense copy, which takes its
// bytes out of `budget`.
TensorView view_of(const PickleTensor& tensor, const ZipArchive::Entry& storage,
                   const std::shared_ptr<const void>& archive, uint64_t& budget, const std::string& where) {
  const DType dtype = torch_dtype(tensor.storage_type);
  const auto size = static_cast<int64_t>(size_of(dtype)), available = static_cast<int64_t>(storage.bytes.size()) / size;
  if (tensor.shape.size() != tensor.strides.size() || tensor.shape.size() > 64)
    fail("{}: has {} extents and {} strides", where, tensor.shape.size(), tensor.strides.size());
  int64_t count = 1, last = tensor.offset, dense_stride = 1;
  bool inside = tensor.offset >= 0 && tensor.offset <= available, dense = true;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    const int64_t extent = tensor.shape[i], stride = tensor.strides[i];
    int64_t reach = 0;
    inside &= extent >= 0 && stride >= 0 && !__builtin_mul_overflow(count, extent, &count);
    if (!inside) break;
    if (extent > 1) {
      inside &= !__builtin_mul_overflow(extent - 1, stride, &reach) && !__builtin_add_overflow(last, reach, &last);
      dense &= stride == dense_stride;
    }
    // Where this overflows an extent of 0 has made the count 0, or the next one makes it too large.
    inside &= !__builtin_mul_overflow(dense_stride, std::max<int64_t>(extent, 1), &dense_stride);
    if (!inside) break;
  }
  if (!inside || (count > 0 && last >= available))
    fail("{}: shape [{}] with strides [{}] at offset {} does not fit its storage of {} elements", where,
         fmt::join(tensor.shape, ", "), fmt::join(tensor.strides, ", "), tensor.offset, available);
  const std::shared_ptr<const void> owner = storage.owner ? storage.owner : archive;
  if (dense || count == 0)
    return {dtype, tensor.shape,
            storage.bytes.subspan(static_cast<size_t>(tensor.offset * size), static_cast<size_t>(count * size)), owner};
  // An expanded tensor may repeat elements, but a claim far beyond the file is a lie.
  if (static_cast<uint64_t>(count) > budget / static_cast<uint64_t>(size))
    fail("{}: shape [{}] with strides [{}] repeats elements far beyond the size of the file", where,
         fmt::join(tensor.shape, ", "), fmt::join(tensor.strides, ", "));
  budget -= static_cast<uint64_t>(count * size);
  const auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(count * size));
  std::vector<int64_t> index(tensor.shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = tensor.offset;
    for (size_t k = 0; k < index.size(); ++k) from += index[k] * tensor.strides[k];
    std::memcpy(copy->data() + i * size, storage.bytes.data() + from * size, static_cast<size_t>(size));
    for (size_t k = index.size(); k-- > 0 && ++index[k] == tensor.shape[k];) index[k] = 0;
  }
  return {dtype, tensor.shape, *copy, copy};
}

// In memory of its own where it lies at an address that its elements may not have.
ZipArchive::Entry aligned(std::span<const std::byte> bytes) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % sizeof(int64_t) == 0) return {bytes, nullptr};
  const auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return {*copy, copy};
}

}  // namespace

DType torch_dtype(const std::string& storage) {
  if (storage == "FloatStorage") return DType::kFloat32;
  if (storage == "HalfStorage") return DType::kFloat16;
  if (storage == "BFloat16Storage") return DType::kBFloat16;
  if (storage == "DoubleStorage") return DType::kFloat64;
  if (storage == "LongStorage") return DType::kInt64;
  if (storage == "IntStorage") return DType::kInt32;
  if (storage == "CharStorage") return DType::kInt8;
  if (storage == "ByteStorage") return DType::kUInt8;
  return DType::kBool;
}

TorchFile::TorchFile(std::span<const std::byte> bytes, const std::string& where, std::shared_ptr<const void> owner)
    : owner_(std::move(owner)), budget_(kMaximumGrowth * bytes.size() + kAlwaysAllowed) {
  if (is_legacy_torch_file(bytes)) {
    LegacyTorchFile file = read_legacy_torch_file(bytes, where);
    pickle_ = std::move(file.pickle);
    for (const auto& [key, storage] : file.storages) storages_.emplace(key, aligned(storage));
    return;
  }
  archive_.emplace(bytes, where);
  const std::string name = archive_->find_ending("/data.pkl");
  if (name.empty()) fail("{}: is no checkpoint of torch.save: the archive has no data.pkl", where);
  prefix_ = name.substr(0, name.size() - std::string_view("data.pkl").size());
  if (archive_->holds(prefix_ + "byteorder")) {
    const ZipArchive::Entry entry = archive_->read(prefix_ + "byteorder");  // owns its bytes, if they were packed
    if (std::string_view(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size()) != "little")
      fail("{}: was saved on a machine of another byte order", where);
  }
  const ZipArchive::Entry pickled = archive_->read(name);
  pickle_ = read_pickle(pickled.bytes, where);
}

TorchFile TorchFile::open(const fs::path& path) {
  const auto file = MappedFile::open(path);
  return {file->bytes(), path.string(), file};
}

TensorView TorchFile::tensor(const PickleTensor& tensor, const std::string& name) {
  auto found = storages_.find(tensor.storage_key);
  if (found == storages_.end() && !archive_)
    fail("{}: is of storage {}, which the file does not hold", name, quoted(tensor.storage_key));
  if (found == storages_.end())
    found =
        storages_.emplace(tensor.storage_key, archive_->read(prefix_ + "data/" + tensor.storage_key, &budget_)).first;
  return view_of(tensor, found->second, owner_, budget_, name);
}

NamedViews parse_torch_state_dict(std::span<const std::byte> bytes, const std::string& where,
                                  std::shared_ptr<const void> owner) {
  TorchFile file(bytes, where, std::move(owner));
  const auto* dict = std::get_if<PickleDict*>(&file.root().value);
  if (!dict) fail("{}: holds no state dict", where);
  // Checkpoints of a training hold it beside other things.
  for (const auto& [key, value] : **dict) {
    const auto* name = std::get_if<const std::string*>(&key.value);
    const auto* inner = std::get_if<PickleDict*>(&value.value);
    if (!name || **name != "state_dict" || !inner) continue;
    dict = inner;
    break;
  }
  NamedViews result;
  for (const auto& [key, value] : **dict) {
    const auto* name = std::get_if<const std::string*>(&key.value);
    const auto* tensor = std::get_if<const PickleTensor*>(&value.value);
    if (!name || !tensor) continue;
    result.emplace_back(**name, file.tensor(**tensor, fmt::format("{}: tensor {}", where, quoted(**name))));
  }
  return result;
}

NamedViews read_torch_state_dict(const fs::path& path) {
  const auto file = MappedFile::open(path);
  return parse_torch_state_dict(file->bytes(), path.string(), file);
}

}  // namespace transom
