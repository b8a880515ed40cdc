// SPDX-License-Identifier: Apache-2.0
// A mode of this thread alone, for as long as this lives; set_mode() sets the one of all threads that have none.
#pragma once

#include <optional>
#include <string_view>

#include "transom/tensor.h"

namespace transom {

// "lazy", "eager", "compile", "graph"; throws an Error of kind kUsage for another word.
Mode mode_named(std::string_view name);

class ModeScope {
 public:
  explicit ModeScope(Mode mode);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  std::optional<Mode> before_;
};

}  // namespace transom
