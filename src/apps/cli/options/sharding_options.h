// SPDX-License-Identifier: Apache-2.0
// Options of commands whose model may be spread over the processes that a launcher started.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/cli/command.h"
#include "models/sharding/inference.h"

namespace transom {

struct ShardingOptions {
  int64_t tp_size = 1, pp_size = 1, ep_size = 1;

  void add_to(Command& command);
  bool any() const { return tp_size > 1 || pp_size > 1 || ep_size > 1; }
  // Where any: joins the other processes. After the device is chosen, before the model is loaded.
  // `timeout`: seconds that processes wait for each other.
  void join(double timeout = 1800) const;
  std::unique_ptr<ShardedInference> spread(Model& model) const;
  // Where any: throws unless all processes were given the same; `what` names it in errors.
  void expect_same(const char* what, const std::string& mine) const;
};

// While it lives, the passes of this thread through the model are those of all processes together. Without sizes above
// 1 it does nothing.
class SpreadModel {
 public:
  SpreadModel(const ShardingOptions& options, Model& model);
  // Computes these, which all processes then have whole.
  void compute(const std::vector<Tensor>& tensors);

 private:
  std::unique_ptr<ShardedInference> inference_;
  std::optional<EvaluatorScope> scope_;
};

}  // namespace transom
