// SPDX-License-Identifier: Apache-2.0
// adapter_model.safetensors of PEFT, and adapter_training.safetensors beside it: what training needs to go on and PEFT
// has no place for.
#pragma once

#include <string>

#include "base/files/files.h"
#include "files/checkpoint/checkpoint.h"
#include "models/loading/adapters/adapter_kind.h"

namespace transom {

inline constexpr const char *kAdapterFile = "adapter_model.safetensors",
                            *kAdapterTrainingFile = "adapter_training.safetensors";

// Whether a directory holds adapters of PEFT.
bool holds_adapters(const fs::path& directory);

// The tensors by their names without the kind's prefix, and without the words that PEFT's wrappers of layers add.
class AdapterFile {
 public:
  // `training`: what stands beside PEFT's file; empty where there is none.
  AdapterFile(const fs::path& directory, const AdapterKind& kind, bool training = false);
  const TensorView* find(std::string_view name) const;
  const NamedViews& views() const { return views_; }
  const std::string& where() const { return where_; }

 private:
  NamedViews views_;
  std::string where_;
};

// A name of PEFT's file as AdapterFile has it.
std::string name_in_model(std::string_view key, const AdapterKind& kind);

}  // namespace transom
