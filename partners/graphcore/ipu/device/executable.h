// SPDX-License-Identifier: Apache-2.0
// A compiled graph: an engine with a stream for each input and each output.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <poplar/Engine.hpp>
#include <string>
#include <vector>

#include "ipu/device/device.h"
#include "ipu/device/executable_cache.h"
#include "ipu/lowering/block_sparse.h"
#include "transom/plugin/types.h"

namespace transom::ipu {

// To the host: what is wrong with the cache, and, where somebody asked for it, what the tiles hold.
struct Messages {
  std::function<void(const std::string&)> warn, memory;
};

}  // namespace transom::ipu

struct transom_executable : Handle {
 public:
  // Throws Failure where the graph breaks the interface, needs what the device has not, or does not fit the tiles. A
  // program that was compiled before comes from the cache.
  transom_executable(transom_device* device, const transom_graph& graph, transom::ipu::Messages messages);
  ~transom_executable();
  void run(const transom_launch& launch);
  const char* describe();
  std::string memory() const;  // of its tiles, on one line
  // Another program comes onto the device: what the tiles hold of the one before is gone. Under the device's `running`.
  static void unload(transom_device& device);

 private:
  void compile(const transom_graph& graph);
  void choose_blocks(const transom_launch& launch);
  poplar::Executable lowered(const transom_graph& graph);
  void fetch(const transom_launch& launch);

  // What an input's tiles hold: contents of a buffer from an offset on.
  struct Resident {
    uint64_t stamp = 0;
    size_t offset = 0;
  };

  transom_device* device_;
  std::vector<transom::backend::Type> inputs_, outputs_;
  std::unique_ptr<poplar::Engine> engine_;
  std::vector<Resident> residents_;                       // by input; guarded by the device's `running`
  std::vector<bool> streamed_inputs_, streamed_outputs_;  // those of streaming memory
  // Weights that may have been pruned in blocks, by input; what they held when they were looked at; and the blocks of
  // those that the program has as blocks.
  struct Weight {
    uint64_t stamp = 0;
    size_t offset = 0;
    std::optional<transom::ipu::BlockMask> mask;
  };
  std::map<size_t, Weight> weights_;
  std::map<size_t, transom::ipu::BlockMask> blocks_;
  std::unique_ptr<transom::ipu::KeptGraph> graph_;  // null: no weight may have been pruned
  transom::ipu::Messages messages_;
  size_t nodes_ = 0;
  bool rounds_stochastically_ = false;
  bool kept_ = false;  // the program was compiled before
  std::string description_;
};
