// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>

#include "base/files/files.h"
#include "files/checkpoint/pickle.h"
#include "files/checkpoint/tensor_view.h"
#include "files/checkpoint/zip_archive.h"

namespace transom {

// The element type of a storage by the name of its class in torch ("FloatStorage").
DType torch_dtype(const std::string& storage);

// What torch.save wrote: a zip archive with a pickle and the storages of its tensors, or before version 1.6 the same
// one behind the other (torch_legacy.h). Nothing in it is ever executed.
class TorchFile {
 public:
  static TorchFile open(const fs::path& path);
  // From memory that `owner` keeps alive; `where` begins errors.
  TorchFile(std::span<const std::byte> bytes, const std::string& where, std::shared_ptr<const void> owner);

  const PickleValue& root() const { return pickle_.root; }
  // The elements of a tensor of the pickle; an error that begins with `name` where they do not fit their storage.
  TensorView tensor(const PickleTensor& tensor, const std::string& name);

 private:
  std::optional<ZipArchive> archive_;  // none: of a legacy file, whose storages are all known
  std::shared_ptr<const void> owner_;
  std::string prefix_;  // of the names of entries
  Pickle pickle_;
  std::map<std::string, ZipArchive::Entry> storages_;  // several tensors may share one, which is inflated once
  uint64_t budget_;                                    // of bytes that inflating and copying may still take
};

// The tensors of a state dict that torch.save wrote (in either format), by name. Only what a state dict
// needs is interpreted; nothing is ever executed.
NamedViews read_torch_state_dict(const fs::path& path);
// The same from memory that `owner` keeps alive.
NamedViews parse_torch_state_dict(std::span<const std::byte> bytes, const std::string& where,
                                  std::shared_ptr<const void> owner);

}  // namespace transom
