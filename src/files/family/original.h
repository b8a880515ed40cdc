// SPDX-License-Identifier: Apache-2.0
// A family in single files of a whole pipeline or of one part, as the authors of Stable Diffusion and FLUX,
// AUTOMATIC1111's program and ComfyUI have them (.safetensors, .ckpt, .gguf). What becomes of them is what diffusers'
// from_single_file makes: diffusers/loaders/single_file_utils.py.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace transom {

class Config;

// A module, or a tensor, by its name there and here. Of several whose names a tensor's begins with the longest counts;
// what is behind it stays (".weight").
struct OriginalModule {
  enum class Change {
    kNone,
    kHalvesSwapped,  // the first half of the rows and the second
    kTransposed,
    kMatrix  // a convolution of one pixel became a linear layer
  };
  std::string original, name;  // without a name here: no part needs it
  Change change = Change::kNone;
  int64_t first_row = 0, rows = 0;  // a part of a tensor of which there are several here; 0 rows: all of it
};

struct OriginalLayout {
  std::vector<std::string> beginnings;  // of all names of the part; "" where a file holds this part alone
  std::string mark;                     // a tensor, behind the beginning, that shows that the part is there
  std::string width = {};               // a field of config.json that is the last extent of that tensor
  std::function<std::vector<OriginalModule>(const Config& config)> names = {};  // empty: they are the same
  std::string architecture = {};                                                // empty: of every class of the family
  // A square matrix that changes nothing, whatever the file has: its name, and the field of its width.
  std::string identity = {}, identity_width = {};
};

}  // namespace transom
