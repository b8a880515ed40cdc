// SPDX-License-Identifier: Apache-2.0
// The voices of a text-to-speech model: tables whose row follows the number of phonemes.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"

namespace transom {

// Of a folder: each `voices/NAME.bin` (numbers f32), or all of the only voices*.npz or voices*.bin that NumPy wrote.
class Voices {
 public:
  explicit Voices(const fs::path& folder);

  const std::vector<std::string>& names() const { return names_; }
  // The table of a voice [rows, width]; refuses a name that is not there with those that are near.
  std::vector<float> table(const std::string& name, int64_t width) const;

 private:
  fs::path folder_, archive_;
  std::vector<std::string> names_;
};

}  // namespace transom
