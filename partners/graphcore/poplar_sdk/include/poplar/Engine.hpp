// SPDX-License-Identifier: Apache-2.0
// Compiling graphs, and running them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "poplar/Executable.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"

namespace ipu_emulator {
struct Running;
}  // namespace ipu_emulator

namespace poplar {

// A machine to load engines on. In the look-alike any number of engines are loaded at the same time, each with its
// own memory, as if it had the machine alone.
class Device {
 public:
  Device() = default;
  explicit Device(Target target) : target_(std::move(target)) {}
  const Target& getTarget() const { return target_; }
  bool attach() const { return true; }
  void detach() const {}

 private:
  Target target_;
};

// Checks the graph and gives every variable its memory. Throws graph_error where a rule is broken, and
// graph_memory_allocation_error where a tile lacks memory, unless debug.allowOutOfMemory is "true".
Executable compileGraph(const Graph& graph, const std::vector<program::Program>& programs,
                        const OptionFlags& options = {});

class Engine {
 public:
  explicit Engine(Executable executable, const OptionFlags& options = {});
  Engine(const Graph& graph, const std::vector<program::Program>& programs, const OptionFlags& options = {});
  void load(const Device& device);
  void connectStream(const std::string& handle, void* begin);
  void connectStream(const std::string& handle, void* begin, void* end);
  // A row of a remote buffer; the memory has room for it.
  void copyToRemoteBuffer(void* from, std::string handle, int repeatIndex, unsigned replicationIndex = 0);
  void copyFromRemoteBuffer(std::string handle, void* to, int repeatIndex, unsigned replicationIndex = 0);
  void run(unsigned program = 0);
  ipu_emulator::Running& running() { return *running_; }

 private:
  std::shared_ptr<ipu_emulator::Running> running_;
};

}  // namespace poplar
