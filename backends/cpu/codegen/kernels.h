// SPDX-License-Identifier: Apache-2.0
// The generated kernels of this process, found by content. A kernel has no code at first; it is read from the disk or
// compiled by threads in the background once it has done enough work to be worth it, and until then its callers
// interpret the tile program, which gives the same bits. Those that were asked for last are kept; others live for as
// long as a program has them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "cpu/codegen/executable_memory.h"
#include "cpu/codegen/recipe.h"

namespace transom::cpu::codegen {

class GeneratedKernel : public std::enable_shared_from_this<GeneratedKernel> {
 public:
  using Entry = void (*)(void* const* table, int64_t count);

  explicit GeneratedKernel(Recipe recipe);

  // Null until there is code. `work`: elements times instructions that the caller is about to interpret if there is
  // none.
  Entry entry(int64_t work);

  const Recipe& recipe() const { return recipe_; }
  const std::vector<TileFunction>& functions() const { return functions_; }  // see called_functions
  uint64_t id() const { return id_; }                                        // a hash of the content

 private:
  friend class Compiler;
  enum State { kIdle, kWanted, kReady, kImpossible };

  const Recipe recipe_;
  const std::string key_;
  std::vector<TileFunction> functions_;
  const uint64_t id_;
  ExecutableMemory memory_;  // written before entry_ is
  std::atomic<Entry> entry_{nullptr};
  std::atomic<int> state_{kIdle};
  std::atomic<int64_t> work_{0}, threshold_;
  std::atomic<bool> waits_{false};  // its callers wait for the code
};

// TRANSOM_CODEGEN: `off`; `background`, the default; or `wait`: every kernel is compiled at once, and its first run
// waits for it (tests, measurements).
enum class Mode { kOff, kBackground, kWait };
Mode mode();

// The kernel of this content; null if code is not generated.
std::shared_ptr<GeneratedKernel> find_kernel(Recipe recipe);

// Ends the threads that compile. Called before LLVM's own end at the exit of the process.
void stop_compiling();

// Has stop_compiling() called at the very beginning of the process's exit, if the calling thread is the one that the
// process began with. Where LLVM is being opened then, handlers of its parts that are ready would run while the others
// are made, which crashes.
void stop_compiling_at_exit();

// What code must fit: the versions of Transom and of LLVM, and what the processor says of itself.
const std::string& target();

// One line for reports: which vectors are generated, or why none are.
std::string describe_generator();

// The text of a kernel; with TRANSOM_CODEGEN_ASSEMBLY=1 its assembly too, which opens LLVM.
std::string kernel_source(const GeneratedKernel& kernel);

}  // namespace transom::cpu::codegen
