// SPDX-License-Identifier: Apache-2.0
// Which stage of a pipeline each module of a model belongs to. A unit is a layer ("model.layers.3") or a module beside
// the layers ("model.embed_tokens"); units stand in the order of the model, and each stage has neighbouring ones, so
// that the most costly stage costs as little as possible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

// A weight, by its name in the checkpoint, and what a token costs there.
struct StagedWeight {
  std::string name;
  int64_t cost = 0;  // multiplications
};

class PipelineStages {
 public:
  // Throws an Error of kind kUsage where there are fewer units than stages.
  PipelineStages(const std::vector<StagedWeight>& weights, int64_t stages) : PipelineStages(weights, stages, stages) {}
  // Each process has several stages, dealt in turn.
  PipelineStages(const std::vector<StagedWeight>& weights, int64_t stages, int64_t processes);

  int64_t stages() const { return stages_; }
  int64_t processes() const { return processes_; }
  int64_t process_of(int64_t stage) const { return stage % processes_; }
  // Of a weight, or of a module ("model.layers.3.self_attn"); none for a module that has several units, or none.
  std::optional<int64_t> stage_of(std::string_view name) const;
  // "model.embed_tokens .. model.layers.1", for each stage; for explanations.
  std::vector<std::string> describe() const;

 private:
  struct Unit {
    std::string name;
    int64_t cost = 0, stage = 0;
  };
  std::vector<Unit> units_;
  int64_t stages_, processes_;
};

// The unit of a weight: its name up to the first number, or without its last component.
std::string unit_of_weight(std::string_view name);

}  // namespace transom
