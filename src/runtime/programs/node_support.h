// SPDX-License-Identifier: Apache-2.0
// Which nodes an opened device runs: by what its plugin says, and by what it has refused to compile.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_set>

#include "runtime/device/device.h"
#include "runtime/programs/lower.h"

namespace transom {

// What is known of one device. Safe from all threads.
class NodeSupport {
 public:
  // The one of this device; of devices of one name and plugin there is one, and it lives as long as the process.
  static NodeSupport& of(const Device& device);

  // Whether the device runs a composite whole; collectives where it is one of several devices.
  bool supports(Device& device, const Node& node);
  // Whether it runs the node of a lowered graph.
  bool runs(Device& device, const Node& node);

  // For a graph that the device refused to compile: its nodes are tried one by one, and those that the device refuses
  // are remembered. False if there is none that was not known.
  bool find_refused(const std::shared_ptr<Device>& device, const Graph& graph);

  // How many different nodes were refused so far.
  size_t refused() const;

 private:
  bool is_refused(const Node& node) const;
  bool refuse(const Device& device, const Node& node, std::string_view reason);
  void say_once(const Device& device, const Node& node, std::string_view reason);

  mutable std::mutex mutex_;
  std::unordered_set<GraphKey, GraphKeyHash> nodes_;  // graphs of one node
  std::set<std::string, std::less<>> regions_;        // names of operations with regions that are made no more
  std::set<std::string, std::less<>> said_;           // operations of which a log line was written
};

// The model of an opened device, which must outlive it. With `host_fallback`, nodes that it does not run are placed on
// the host.
CompileTarget model_of(const std::shared_ptr<Device>& device, bool host_fallback);

}  // namespace transom
