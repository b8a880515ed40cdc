// SPDX-License-Identifier: Apache-2.0
// transom train ... --serve: once the model is trained, this process becomes `transom serve` of it.
#pragma once

#include <string>
#include <vector>

#include "transom/fine_tuning.h"

namespace transom {

struct ServeAfterTraining {
  bool wanted = false;
  std::vector<std::string> words;  // for serve: --host, --port, --served_model_name
};

// Takes these flags out of the words of `train`. Throws Error (kUsage) for a port that is none, and for flags of a
// server without --serve.
ServeAfterTraining take_serve_flags(std::vector<std::string>& words);
// What --help says of them.
std::string describe_serve_flags();
// Refuses what leaves no model behind.
void expect_servable(const ServeAfterTraining& serve, const TrainArguments& arguments);
// Does not return. What was trained is on disk; the new program has the memory, and the signals, for itself.
[[noreturn]] void serve_trained(const ServeAfterTraining& serve, const TrainArguments& arguments);

}  // namespace transom
