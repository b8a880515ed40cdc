// SPDX-License-Identifier: Apache-2.0
// What one process tells those that compute a model with it: generate() and the engine speak alike. One of them leads,
// with all that is chosen, so that all make the same passes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "transom/error.h"
#include "transom/generation.h"
#include "work/generation/engine/paged/paged_program.h"

namespace transom {

struct ProcessCommand {
  enum class Kind {
    kMake,     // a paged cache: blocks, block_size, cache_dtype
    kEmbed,    // an input among the tokens: attached
    kRun,      // a pass over the paged cache: pass
    kGrow,     // the paged cache, by blocks
    kCopy,     // blocks of it: pairs
    kBegin,    // a search: numbers that are equal where prompts and options are
    kRead,     // a pass of it: the length of the rows, then their tokens
    kRepeat,   // its rows: how often
    kReorder,  // its rows: where each goes on from
    kAnswer,   // its end: output
    kFailure,  // its end: error, text
    kEnd       // of all passes over the paged cache
  };
  Kind kind = Kind::kEnd;
  int64_t blocks = 0, block_size = 0;
  DType cache_dtype = DType::kFloat32;
  AttachedInput attached = {};
  PagedPass pass = {};
  std::vector<std::pair<int32_t, int32_t>> pairs = {};
  std::vector<int64_t> numbers = {};
  GenerationOutput output = {};
  ErrorKind error = ErrorKind::kInternal;
  std::string text = {};
};

// The kind and what belongs to it.
std::string bytes_of(const ProcessCommand& command);
// Throws where the bytes are no command.
ProcessCommand command_of(const std::string& bytes);
// For who gets a command that has no meaning where it comes.
[[noreturn]] void refuse_command();

}  // namespace transom
