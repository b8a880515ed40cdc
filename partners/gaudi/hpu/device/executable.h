// SPDX-License-Identifier: Apache-2.0
// A compiled graph: recipes, and host work between them where the plan has any. The recipes themselves are compiled at
// the first launch, because only that says which outputs are written in place of which inputs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hpu/device/device.h"
#include "hpu/host/host_value.h"
#include "hpu/lowering/plan.h"
#include "hpu/recipe/recipe.h"

struct transom_executable : DeviceHandle {
 public:
  transom_executable(transom_device* device, const transom_graph& graph);

  // A launch with its addresses found and its recipes compiled: what a capture keeps.
  class Prepared;
  std::shared_ptr<const Prepared> prepare(const transom_launch& launch);
  void run(const Prepared& prepared, transom_stream& stream) const;
  const char* describe() const { return description_.c_str(); }
  // The workspace of its largest recipe, what lies between recipes, and outputs that are written apart, in the variant
  // that needs most of those that were launched; if none was, with outputs of their own.
  uint64_t temporary_bytes();

 private:
  // A tensor of a recipe that memory is bound to.
  struct Bound {
    enum { kInput, kOutput, kBetween } kind;
    size_t index;  // of the graph's input or output; else the value
    size_t value;
    int tensor;  // in the recipe's graph
  };
  struct DeviceSegment {
    transom::hpu::RecipeGraph graph;
    std::vector<Bound> bound;  // in the order of the persistent tensors
    size_t first_source = 0;   // the first node of the compiled graph in it, for profiles
    std::string name;
  };
  // For each output of the graph the input whose memory it takes, or kOwn, or kApart: written elsewhere and copied at
  // the end, since a recipe still reads what lies there.
  using Aliases = std::vector<int>;
  static constexpr int kOwn = -1, kApart = -2;
  struct Variant {
    Aliases aliases;
    std::vector<std::shared_ptr<const transom::hpu::Recipe>> recipes;  // by segment; null for the host's
  };

  DeviceSegment lower(const transom::hpu::Segment& segment);
  bool may_share(size_t output, size_t input) const;
  const Variant& variant_for(const Aliases& wanted);
  void describe_segment(const transom::hpu::Segment& segment, const std::string& how);
  void warn_about_host_work() const;
  void run_on_host(const Prepared& prepared, const transom::hpu::Segment& segment, transom_stream& stream,
                   std::map<size_t, transom::hpu::HostValue>& host) const;
  void launch(const Prepared& prepared, size_t segment, transom_stream& stream) const;

  transom::hpu::Plan plan_;
  std::vector<DeviceSegment> device_segments_;     // one for each segment of the plan, empty for the host's
  std::map<size_t, size_t> input_of_, output_of_;  // value -> place in the list
  std::string description_;
  std::mutex mutex_;
  std::map<Aliases, Variant> variants_;
};
