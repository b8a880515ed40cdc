// SPDX-License-Identifier: Apache-2.0
// An engine whose model is spread over processes: one of them leads, with all requests and the blocks of the cache, and
// tells the others what to compute, so that all make the same passes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "generation/engine/paged_program.h"
#include "tensor/evaluator.h"

namespace transom {

struct EngineCommand {
  enum class Kind { kMake, kEmbed, kRun, kGrow, kCopy, kEnd };
  Kind kind = Kind::kEnd;
  int64_t blocks = 0, block_size = 0;                   // of kMake; blocks of kGrow
  DType cache_dtype = DType::kFloat32;                  // of kMake
  AttachedInput attached = {};                          // of kEmbed
  PagedPass pass = {};                                  // of kRun
  std::vector<std::pair<int32_t, int32_t>> pairs = {};  // of kCopy
};
std::string bytes_of(const EngineCommand& command);
// Throws where the bytes are no command.
EngineCommand command_of(const std::string& bytes);

// For processes that do not lead: does what the one that leads says, until its engine ends.
void follow_engine(const Model& model, Evaluator& evaluator);

}  // namespace transom
