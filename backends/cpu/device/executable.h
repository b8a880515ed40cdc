// SPDX-License-Identifier: Apache-2.0
// A compiled graph: one prepared step for each node, run in the order of the graph.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "cpu/device/memory.h"
#include "cpu/kernels/kernel.h"

struct transom_device;

struct transom_executable : transom::cpu::Handle {
 public:
  transom_executable(transom_device* device, const transom_graph& graph);
  // A launch with its addresses found: what a capture keeps.
  struct Prepared {
    const transom_executable* executable;
    transom_stream* stream;
    std::vector<std::byte*> operands;      // of all steps, one after the other
    std::vector<transom_buffer*> buffers;  // of their inputs and outputs: see Arguments
    std::vector<size_t> offsets;
    std::vector<bool> apart;  // of the steps: the reader's results lie on what the producer still reads
    void run() const { executable->run(*this); }
  };
  Prepared prepare(const transom_launch& launch) const;
  void run(const Prepared& prepared) const;
  // A line for each node, then the source of each generated kernel under a line "kernel <name>:".
  const char* describe() const;
  // Of the device, while it runs: what its kernels share, one after the other.
  size_t workspace_bytes() const { return scratch_bytes_ ? transom::cpu::Allocator::size_of(scratch_bytes_) : 0; }

 private:
  // Where the host puts a value: an input, an output, or a place in the arena.
  struct Place {
    enum { kInput, kOutput, kArena } kind;
    size_t index;  // of the input or output; the offset in the arena
    size_t bytes;
    bool frozen;
  };
  struct Step {
    size_t node;
    transom::cpu::Kernel kernel;
    std::vector<size_t> values;  // inputs, then outputs
    size_t inputs;
    std::string where;
    std::shared_ptr<Step> reader = nullptr;  // a fusion that takes the result chunk by chunk
  };

  std::vector<Place> places_for(const transom_graph& graph) const;
  void drop_unread_casts(const transom_graph& graph, const std::vector<const transom_node*>& nodes);
  void describe_step(const Step& step, const transom::cpu::Node& node);
  void fuse_epilogues();
  bool can_wait(size_t producer, size_t until) const;
  bool overlap(size_t value, size_t other) const;
  bool writes_over(const Step& step, const std::vector<std::byte*>& addresses) const;
  static transom::cpu::Arguments arguments_of(const Step& step, const Prepared& prepared, size_t first,
                                              std::byte* scratch, const transom::cpu::ChunkReader* reader);
  void run_step(const Step& step, const Prepared& prepared, size_t first, std::byte* scratch,
                const transom::cpu::ChunkReader* reader) const;

  transom_device* device_;
  std::vector<Place> places_;
  std::vector<Step> steps_;
  size_t inputs_, outputs_, arena_size_;
  size_t scratch_bytes_ = 0;
  mutable std::once_flag sources_added_;
  mutable std::string description_;
};
