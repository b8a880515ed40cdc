// SPDX-License-Identifier: Apache-2.0
// How a job lies over its devices.
#pragma once

#include <string>
#include <vector>

#include "tools/plan/job.h"
#include "tools/plan/machines/device_model.h"
#include "tools/plan/shape/model_shape.h"

namespace transom {

enum class Recompute { kNone, kAttention, kFull };

struct Layout {
  double data = 1, tensor = 1, pipeline = 1, context = 1, expert = 1;
  int zero = 0;  // 0 to 3 (Rajbhandari et al.); 3 is FSDP's full sharding
  Recompute recompute = Recompute::kNone;
  double chunks = 1;        // of interleaved pipelines
  double micro_batch = 1;   // samples of one pass
  double accumulation = 1;  // passes a step
  double lora_rank = 0;     // 0: all weights are trained
  double devices() const { return data * tensor * pipeline * context; }
  double samples_a_step() const { return micro_batch * accumulation * data; }
};

std::string text_of(const Layout& layout);  // "dp=8, tp=2, zero=1, micro=4, accumulation=2"

// What a job says of its layout; what it does not say is 0.
struct StatedLayout {
  double data = 0, tensor = 0, pipeline = 0, context = 0, expert = 0, micro_batch = 0, accumulation = 0, prompts = 0,
         chunks = 0, lora_rank = 0;
  double predictions = 0;  // max_predictions_per_seq: positions of a sequence that a masked model's head sees
  int zero = -1;
  int recompute = -1;
  bool open = false;  // "not stated": to be searched
};
// Reads `optimisations`. Errors of kind kUsage name it.
StatedLayout stated_layout(const Job& job);

// The layouts that agree with what is stated, divide layers, heads and devices, and are worth a look. `batch`: samples
// a step over all devices; 0: each layout has its own.
std::vector<Layout> candidate_layouts(const Job& job, const ModelShape& shape, const DeviceModel& device,
                                      const StatedLayout& stated);

}  // namespace transom
