// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/torch_legacy.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "files/checkpoint/torch_file.h"

namespace transom {
namespace {

// The pickle of 0x1950a86a20f9469cfc6c in protocol 2, torch's magic number.
constexpr std::string_view kMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
constexpr int64_t kVersion = 1001;

// Of a file: the next pickle, which `rest` then begins behind.
Pickle next_pickle(std::span<const std::byte>& rest, const std::string& where) {
  size_t size = 0;
  Pickle pickle = read_pickle(rest, where, &size);
  rest = rest.subspan(size);
  return pickle;
}

const PickleValue* value_of(const Pickle& dict, std::string_view name) {
  const auto* items = std::get_if<PickleDict*>(&dict.root.value);
  if (!items) return nullptr;
  for (const auto& [key, value] : **items)
    if (const auto* text = std::get_if<const std::string*>(&key.value); text && **text == name) return &value;
  return nullptr;
}

// The element type of each storage: the pickle names it beside the key.
std::map<std::string, std::string> types_of_storages(const Pickle& pickle, const std::string& where) {
  std::map<std::string, std::string> types;
  for (const PickleTensor& tensor : pickle.tensors) {
    const auto [known, is_new] = types.emplace(tensor.storage_key, tensor.storage_type);
    if (!is_new && known->second != tensor.storage_type)
      fail("{}: storage {} is of two types, {} and {}", where, quoted(tensor.storage_key), known->second,
           tensor.storage_type);
  }
  return types;
}

}  // namespace

bool is_legacy_torch_file(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

LegacyTorchFile read_legacy_torch_file(std::span<const std::byte> bytes, const std::string& where) {
  std::span<const std::byte> rest = bytes.subspan(kMagic.size());
  const Pickle version = next_pickle(rest, where);
  if (const auto* number = std::get_if<int64_t>(&version.root.value); !number || *number != kVersion)
    fail("{}: is no checkpoint of torch.save that is known: expected version {} of its format", where, kVersion);
  const Pickle machine = next_pickle(rest, where);
  const PickleValue* order = value_of(machine, "little_endian");
  if (!order || !std::holds_alternative<bool>(order->value) || !std::get<bool>(order->value))
    fail("{}: was saved on a machine of another byte order", where);
  LegacyTorchFile file{.pickle = next_pickle(rest, where), .storages = {}};
  const std::map<std::string, std::string> types = types_of_storages(file.pickle, where);
  const Pickle keys = next_pickle(rest, where);
  const auto* list = std::get_if<PickleList*>(&keys.root.value);
  if (!list) fail("{}: expected a list of storages behind the pickle", where);
  for (const PickleValue& each : **list) {
    const auto* key = std::get_if<const std::string*>(&each.value);
    const auto type = key ? types.find(**key) : types.end();
    if (type == types.end()) fail("{}: lists a storage that no tensor names", where);
    uint64_t count = 0, size = size_of(torch_dtype(type->second));
    if (rest.size() < sizeof(count)) fail("{}: ends within storage {}", where, quoted(**key));
    std::memcpy(&count, rest.data(), sizeof(count));
    rest = rest.subspan(sizeof(count));
    if (count > rest.size() / size)
      fail("{}: storage {} of {} elements is cut off: {} bytes are left", where, quoted(**key), count, rest.size());
    if (!file.storages.emplace(**key, rest.first(count * size)).second)
      fail("{}: storage {} comes twice", where, quoted(**key));
    rest = rest.subspan(count * size);
  }
  return file;
}

}  // namespace transom
