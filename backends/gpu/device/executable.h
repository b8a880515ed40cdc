// SPDX-License-Identifier: Apache-2.0
// A compiled graph: its launches in order, each with its kernel and where its operands lie.
#pragma once

#include <string>
#include <vector>

#include "gpu/device/device.h"
#include "gpu/lowering/merge_launches.h"

struct transom_executable : Handle {
 public:
  // Throws Failure where the graph breaks the interface, or needs what the device has not.
  transom_executable(transom_device* device, const transom_graph& graph);
  // Issues the launches to the stream; with a profile, waits for each node.
  void run(const transom_launch& launch) const;
  const char* describe() const { return description_.c_str(); }

 private:
  using Value = transom::gpu::ValuePlace;
  struct Step {
    const transom::gpu::Kernel* kernel;  // null: the library's
    uint64_t groups;
    std::vector<transom::gpu::Operand> operands;
    std::vector<int64_t> numbers;
    size_t node;
    std::string label;
    std::optional<transom::gpu::ProductShape> product;     // in the place of a kernel
    std::vector<transom::gpu::PlannedLaunch> otherwise{};  // compiled when first needed, as seldom is
    std::vector<transom::gpu::BoundValue> bound{};         // of a merged launch
    std::optional<transom::gpu::ConvolutionShape> convolution{};
    std::optional<transom::gpu::PlannedAttention> attention{};
  };

  struct Addresses {
    const std::vector<std::byte*>& values;
    std::byte* scratch;
    std::vector<const void*> of(const std::vector<transom::gpu::Operand>& operands) const;
  };
  std::vector<bool> place_values(const transom_graph& graph);
  std::vector<std::string> lower(const transom_graph& graph, const std::vector<bool>& bound,
                                 transom::gpu::Emitter& emitter);
  void issue(transom_stream& stream, const Step& step, const Addresses& where) const;
  std::vector<std::byte*> places(const transom_launch& launch) const;
  bool may_join(const transom_node& node, const transom_node& next, const std::vector<size_t>& readers,
                const std::vector<bool>& bound) const;

  transom_device* device_;
  std::vector<Value> values_;
  std::vector<size_t> inputs_, outputs_;
  std::vector<Step> steps_;
  size_t nodes_ = 0, arena_bytes_, scratch_bytes_ = 0;
  std::string description_;
};
