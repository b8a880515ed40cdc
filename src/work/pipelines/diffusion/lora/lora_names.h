// SPDX-License-Identifier: Apache-2.0
// The names of modules in files of LoRA: kohya's scripts write those of the original files of a network, in which
// several weights of diffusers may be one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace transom {

// A name whose dots are underscores, as kohya's scripts write it, and without the words that wrappers of modules add.
std::string flat_module(const std::string& module);

// A module by an original name.
struct OriginalName {
  std::string name;      // flat; empty: it has none
  size_t place = 0;      // among the weights that are one there, whose rows follow each other
  bool is_last = false;  // of those
  bool swaps = false;    // the halves of its rows stand the other way round there
};
// Of a module of a U-Net (Stability's files), by its flat name. `layers`: of a block.
OriginalName unet_original(std::string_view flat, int64_t layers);
// Of a module of FLUX (Black Forest Labs' files) or of Stable Diffusion 3 (Stability's). `parts`: how many times as
// many rows as columns its weight has.
std::vector<OriginalName> flow_originals(std::string_view flat, int64_t parts);

}  // namespace transom
