// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run whose model is spread over processes.
#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "models/save_configuration.h"
#include "runtime/distributed/process_group.h"
#include "work/train/files/checkpoints.h"
#include "work/train/files/trainer_checkpoint.h"
#include "work/train/loop/run_checks.h"
#include "work/train/loop/trainer_run.h"

namespace transom {

namespace {

std::string shape_of(const ProcessMesh& mesh) {
  std::string text;
  for (const MeshAxis axis : kAllMeshAxes)
    if (mesh.size(axis) > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name_of(axis), mesh.size(axis));
  return text;
}

}  // namespace

// Adapters are few numbers, and PEFT reads them whole.
bool Trainer::Run::saves_parts() {
  return step.sharding() && !model->adaptation() && !step.sharding()->layout().whole_checkpoints;
}

void Trainer::Run::write_parts(bool only_model) {
  ProcessGroup& group = *process_group();
  if (!saver) saver = std::make_unique<ShardedSaver>(group);
  saver->finish();
  const fs::path folder(arguments.output_dir);
  ShardedSaver::Save save;
  save.destination = folder / checkpoint_name(state.global_step);
  save.temporary = folder / (std::string(kUnfinishedPrefix) + checkpoint_name(state.global_step));
  save.step = state.global_step;
  save.mesh = shape_of(step.sharding()->tensors().mesh());
  if (is_main()) {
    remove_tree(save.temporary);
    make_directories(save.temporary);
    save_configuration(*model, save.temporary.string());
    write_file(save.temporary / "training_args.json", arguments.to_json());
    if (save_hook) save_hook(save.temporary.string());
    save_run_state(save.temporary, *schedule, state, only_model);
    save.then = [this, best = state.best_model_checkpoint] { remove_old_checkpoints(best); };
  }
  group.barrier();  // the directory is there
  save.parts = copy_parts(*step.sharding(), *model, only_model ? nullptr : &step.optimizer());
  saver->start(std::move(save));
}

void Trainer::Run::finish_saving() {
  if (saver) saver->finish();
}

std::optional<std::string> Trainer::Run::checkpoint_of_all() const {
  const std::optional<std::string> mine = last_whole_checkpoint(arguments.output_dir);
  ProcessGroup* group = process_group();
  if (!group) return mine;
  // The view of a shared file system may be an old one somewhere.
  std::optional<std::string> oldest = mine;
  for (const std::string& name : group->all_gather(mine.value_or(""))) {
    if (name.empty()) return std::nullopt;
    if (!oldest || checkpoint_step(name) < checkpoint_step(*oldest)) oldest = name;
  }
  return oldest;
}

}  // namespace transom
