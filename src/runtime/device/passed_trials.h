// SPDX-License-Identifier: Apache-2.0
// Plugins that were loaded on trial before and did no harm, in the user's cache folder: a trial starts the driver,
// which takes long. Faults are not kept: who mends one is not to wait for anything.
#pragma once

#include <string>

#include "base/files/files.h"

namespace transom {

// A plugin is known by its path, size and time of change, and by the variables that tell it and the loader what to
// load.
class PassedTrials {
 public:
  explicit PassedTrials(const fs::path& plugin);
  bool contain_this() const;
  void add() const;  // does nothing where it cannot write

 private:
  fs::path entry_;  // empty: nothing is kept
  std::string text_;
};

}  // namespace transom
