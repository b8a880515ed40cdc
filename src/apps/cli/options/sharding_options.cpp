// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/options/sharding_options.h"

#include "base/error.h"
#include "base/terminal/log.h"
#include "runtime/distributed/process_group.h"
#include "transom/distributed.h"

namespace transom {

void ShardingOptions::add_to(Command& command) {
  command.options.push_back({.name = "--tp_size",
                             .value = &tp_size,
                             .help = "processes of a launcher that share each layer (tensor parallel)",
                             .group = kDeviceGroup});
  command.options.push_back({.name = "--pp_size",
                             .value = &pp_size,
                             .help = "number of pipeline stages (pipeline parallel)",
                             .group = kDeviceGroup});
  command.options.push_back({.name = "--ep_size",
                             .value = &ep_size,
                             .help = "processes that share the experts (expert parallel)",
                             .group = kDeviceGroup});
}

void ShardingOptions::join(double timeout) const {
  for (const auto& [name, size] :
       {std::pair("tp_size", tp_size), std::pair("pp_size", pp_size), std::pair("ep_size", ep_size)})
    if (size < 1) fail(ErrorKind::kUsage, "--{}: expected at least 1, found {}", name, size);
  if (!any()) return;
  const Launch launch = launch_of_environment();
  if (launch.ranks != tp_size * pp_size * ep_size)
    fail(ErrorKind::kUsage,
         "--tp_size {} x --pp_size {} x --ep_size {}: expected as many processes, {}; found {} (mpirun, torchrun)",
         tp_size, pp_size, ep_size, tp_size * pp_size * ep_size, launch.ranks);
  if (mode() == Mode::kEager) fail(ErrorKind::kUsage, "--mode eager: a model on several processes is computed lazily");
  if (launch.rank > 0) set_log_sink({});
  join_process_group({.timeout = timeout});
}

void ShardingOptions::expect_same(const char* what, const std::string& mine) const {
  ProcessGroup* group = any() ? process_group() : nullptr;
  if (!group) return;
  const bool same = group->from_main(mine) == mine;
  if (group->sum(same ? 0 : 1) > 0)
    fail(ErrorKind::kUsage, "{}: expected the same on all processes, found others{}", what,
         same ? "" : fmt::format(" on rank {}", process_rank()));
}

std::unique_ptr<ShardedInference> ShardingOptions::spread(Model& model) const {
  ShardingLayout layout;
  layout.set(MeshAxis::kTensor, tp_size);
  layout.set(MeshAxis::kPipeline, pp_size);
  layout.set(MeshAxis::kExpert, ep_size);
  return std::make_unique<ShardedInference>(model, layout, process_rank(), process_count());
}

SpreadModel::SpreadModel(const ShardingOptions& options, Model& model) {
  if (!options.any()) return;
  inference_ = options.spread(model);
  scope_.emplace(inference_.get());
}

void SpreadModel::compute(const std::vector<Tensor>& tensors) {
  if (inference_) inference_->evaluate(tensors, {});
  else eval(tensors);
}

}  // namespace transom
