// SPDX-License-Identifier: Apache-2.0
// A program in partitions (see passes/partition.h): those of the device, those of the host, and between them the
// collectives, each on a stream of its group while the partitions behind it compute. A partition waits for those
// collectives alone whose results it uses.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include "graph/ir/tensor_map.h"
#include "graph/passes/partition.h"
#include "runtime/device/communicator.h"
#include "runtime/programs/equal_programs.h"

namespace transom {

class PartitionedProgram : public Executable {
 public:
  // Throws NotSupported where the device refuses a partition.
  PartitionedProgram(std::shared_ptr<Device> device, const LoweredGraph& lowered, std::string* description = nullptr);
  ~PartitionedProgram() override;

  Buffers run(const Buffers& inputs) const override;
  bool updates(size_t) const override { return false; }
  size_t arena_bytes() const override { return arena_bytes_; }
  size_t temporary_bytes() const override;
  std::vector<ProgramPiece> pieces() const override;
  size_t executables() const override { return executables_; }

 private:
  // What is started behind a step.
  struct Exchange {
    Collective kind = Collective::kAllReduce;
    size_t from = 0, to = 0;     // slots; equal where the input is needed no more
    std::optional<size_t> over;  // the slot of an input whose memory the result takes
    size_t bytes = 0;            // of the result
    DType dtype = DType::kFloat32;
    std::vector<int64_t> group;  // ranks; none: all
    int64_t processes = 0;       // of the group; 0: however many there are
    int64_t shift = 0;           // above 0: a message so many places on, and no collective
    std::string scope;
    transom_event* done = nullptr;
  };
  // A slot holds one value of a run: an input, or what goes from partition to partition.
  struct Step {
    std::unique_ptr<Executable> program;  // null: nothing to compute
    std::vector<size_t> places;           // of its nodes in the lowered graph
    std::vector<size_t> inputs, outputs;
    std::vector<size_t> waits;        // for what was started behind these steps
    std::vector<size_t> released;     // slots that nobody needs after the step
    std::vector<size_t> overwritten;  // inputs of the graph whose memory the program takes
    std::unique_ptr<Exchange> exchange;
  };

  void add_step(const Partition& partition, size_t number, bool last, const LoweredGraph& lowered);
  void compile_steps(size_t inputs, std::string* description);  // `inputs`: of the lowered graph
  // `done`: the steps whose programs have run.
  Buffers run_steps(const Buffers& inputs, size_t& done) const;
  std::unique_ptr<Exchange> exchange_of(const Node& collective);
  template <typename Wait>
  void pace(const Node& collective, const Exchange& exchange, size_t number, const Wait& wait_for);
  void find_memory(const std::shared_ptr<Node>& collective, size_t number, const LoweredGraph& lowered);
  size_t slot_of(const Tensor& tensor);
  const Tensor& whole_value_of(const Tensor& tensor) const;
  void start(const Exchange& exchange, std::vector<std::shared_ptr<Buffer>>& slots) const;
  Communicator& group_of(const Exchange& exchange) const;

  std::shared_ptr<Device> device_;
  std::vector<Step> steps_;
  std::vector<size_t> outputs_;
  size_t slots_ = 0, arena_bytes_ = 0, executables_ = 0;
  // While it is built:
  std::unordered_map<const Node*, size_t> place_;  // in the lowered graph
  TensorMap<size_t> slot_of_;
  TensorMap<Tensor> views_;       // what has no slot of its own: the same bytes in another shape
  std::vector<size_t> last_use_;  // by slot: the last step that uses it
  std::vector<std::vector<size_t>> writing_steps_, reading_steps_;  // by slot: steps whose collective writes, reads it
  std::vector<size_t> overwritten_slots_;  // by step: the slot of an input that its collective writes over
  std::vector<bool> is_overwritten_;       // by slot
  struct Travelling {
    int64_t unit;
    std::vector<size_t> steps;  // whose collectives they are
  };
  std::deque<Travelling> travelling_;
  std::map<size_t, ProgramPart> parts_;  // by step: what the device shall compile for it
};

}  // namespace transom
