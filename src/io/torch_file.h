// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/files.h"
#include "io/tensor_view.h"

namespace transom {

// The tensors of a state dict that torch.save wrote (a zip archive with a pickle), by name. Only what a state dict
// needs is interpreted; nothing is ever executed.
NamedViews read_torch_state_dict(const fs::path& path);
// The same from memory that `owner` keeps alive.
NamedViews parse_torch_state_dict(std::span<const std::byte> bytes, const std::string& where,
                                  std::shared_ptr<const void> owner);

}  // namespace transom
