// SPDX-License-Identifier: Apache-2.0
// A program with collectives in it: pieces for the device, and between them the collectives, each on a stream of its
// own while the pieces behind it compute. A piece waits only if it uses a result.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "ir/graph.h"
#include "ir/tensor_map.h"
#include "passes/partition.h"

namespace transom {

class Program;
struct ProgramOptions;

class CollectiveProgram {
 public:
  // `graph` is lowered; the device has a communicator.
  CollectiveProgram(std::shared_ptr<Device> device, const Graph& graph, const ProgramOptions& options);
  ~CollectiveProgram();

  // One buffer an output of the graph.
  std::vector<std::shared_ptr<Buffer>> run(const std::vector<std::shared_ptr<Buffer>>& inputs) const;

  size_t pieces() const { return steps_.size(); }

 private:
  // A slot holds one value of a run: an input, or what goes from piece to piece.
  struct Step {
    std::unique_ptr<Program> program;  // null: nothing to compute
    std::vector<size_t> inputs, outputs;
    bool waits = false;               // for all collectives that were started
    std::vector<size_t> released;     // slots that nobody needs after the step
    std::vector<size_t> overwritten;  // inputs of the graph whose memory the program takes
    bool reduces = false;             // then a collective follows:
    size_t from = 0, to = 0;          // of this slot, into that one; equal where the input is needed no more
    DType dtype = DType::kFloat32;
  };

  void add_step(const Partition& piece, size_t number, const Graph& graph, const ProgramOptions& options);
  size_t slot_of(const Tensor& tensor);
  // `done`: the steps whose programs have run.
  std::vector<std::shared_ptr<Buffer>> run_steps(const std::vector<std::shared_ptr<Buffer>>& inputs,
                                                 size_t& done) const;
  std::shared_ptr<Buffer> copy_of(const Buffer& buffer) const;

  std::shared_ptr<Device> device_;
  std::vector<Step> steps_;
  std::vector<size_t> outputs_;
  size_t slots_ = 0;
  // While it is built:
  TensorMap<size_t> slot_of_;
  std::vector<size_t> last_use_;  // by slot: the last step that uses it
};

}  // namespace transom
