// SPDX-License-Identifier: Apache-2.0
// What a family's models read: from this follow the inputs of exported files, of calibration, and those that are made
// up for measurements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "files/family/stated.h"

namespace transom {

// An axis of an input, or the rows of a table.
struct InputExtent {
  std::string name;  // of the axis in exported files: "sequence_length", "num_channels"
  // Which field of the configuration says it, the first that is there: "x"; "x.1", an element of a list, or the one
  // number; "a_config.x", x of a part, or x where there is no such part. None: every extent will do.
  std::vector<std::string> fields = {};
  int64_t otherwise = 0;  // where the configuration has none of them
  int64_t times = 1;
  bool squared = false;  // of an extent on two axes of a picture: its places
};

struct FamilyInput {
  enum class Kind {
    kTokens,         // ids
    kMask,           // 0 hides a token
    kTypes,          // which of two sentences a token is of
    kPositions,      // where a token stands
    kDecoderTokens,  // ids that a decoder has written
    kPixels,         // f32 [B, channels, height, width]
    kHiddenPatches,  // bool [B, patches]: which are hidden of the pixels that stand before it, as many in each row
    kSamples,        // f32 [B, samples] of a sound
    kSampleMask,     // 0 hides a sample
    kSpectrum,       // f32 [B, bands, frames] of a sound
    kNumbers,        // f32 [B, columns]
    kCategories,     // rows of a table
    kBagOffsets      // [tables, B]: where the rows of a table begin that are summed for each row of data
  };
  // Whether an exported file has it. Files have the inputs of those that optimum-onnx writes.
  enum class Export {
    kAlways,
    kOptional,  // and ones stand for it where a caller gives nothing
    kStates,    // of bodies and of models that write alone
    kNever
  };

  std::string name;  // the argument's, as Transformers has it
  Kind kind = Kind::kTokens;
  std::vector<InputExtent> axes;  // behind that of the rows
  Export exported = Export::kAlways;
  bool needed = true;      // the model refuses to work without it
  InputExtent table = {};  // of what the numbers are rows; without fields: of none that is known
  // A list in the configuration: for its element i there is a table of so many rows, and an input NAME.i; of
  // kBagOffsets one input for all.
  std::string each = {};
};

using FamilyInputs = std::vector<FamilyInput>;

}  // namespace transom
