// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/trainer_checkpoint.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "files/checkpoint/sharded_safetensors.h"
#include "files/config/config.h"
#include "models/loading/adapters/adaptation.h"
#include "models/sharding/model_parts.h"
#include "transom/distributed.h"
#include "work/train/files/manifest.h"
#include "work/train/files/torch_checkpoint.h"

namespace transom {
namespace {

constexpr std::string_view kOptimizer = "optimizer.safetensors", kSchedule = "scheduler.json",
                           kState = "trainer_state.json";

}  // namespace

void save_run(const std::filesystem::path& directory, TrainStep& step, const Schedule& schedule,
              const TrainerState& state, bool only_model) {
  if (!only_model) {
    NamedViews views;
    for (const auto& [name, tensor] : step.optimizer().state()) {
      const auto bytes = std::make_shared<const std::vector<std::byte>>(tensor.to_bytes());
      views.emplace_back(name, TensorView{tensor.dtype(), tensor.shape(), *bytes, bytes});
    }
    write_safetensors(directory / kOptimizer, views,
                      {{"format", "pt"}, {"step", std::to_string(step.optimizer().steps())}});
  }
  save_run_state(directory, schedule, state, only_model);
}

void save_run_state(const std::filesystem::path& directory, const Schedule& schedule, const TrainerState& state,
                    bool only_model) {
  if (!only_model) write_file(directory / kSchedule, dump_json(schedule.state(), 2) + "\n");
  state.save(directory / kState);
}

void load_parameters(const std::filesystem::path& directory, Model& model, ModelSharding* sharding) {
  if (Adaptation* adaptation = model.adaptation()) return adaptation->load_values(directory);
  if (sharding && !path_exists(directory / "model.safetensors") && ShardedTensorFiles::exists(directory))
    return load_weights(ShardedTensorFiles::open(directory), *sharding, model);
  const auto loaded = Model::from_pretrained(directory.string());
  using Tensors = std::vector<std::shared_ptr<Parameter>>;
  const auto take = [&](const Tensors& from, const Tensors& to, std::string_view what) {
    if (from.size() != to.size())
      fail("{}: holds {} {}s, the model that is trained has {}", directory.string(), from.size(), what, to.size());
    for (size_t i = 0; i < to.size(); ++i) {
      const Tensor& value = from[i]->value;
      if (value.type() != to[i]->value.type())
        fail("{}: {} '{}' is {}, the model that is trained has {}", directory.string(), what, to[i]->name,
             to_string(value.type()), to_string(to[i]->value.type()));
      // Copied out of the file: a device may treat contents that never change differently, to the last bit, and in the
      // run that is resumed these were results of a step.
      to[i]->value = Tensor::from_bytes(value.to_bytes(), value.type());
    }
  };
  take(loaded->parameters(), model.parameters(), "parameter");
  take(loaded->buffers(), model.buffers(), "buffer");
}

namespace {

void expect_same_class(const std::filesystem::path& directory, const Model& model) {
  const auto file = directory / "config.json";
  if (model.adaptation() || !file_exists(file)) return;
  const std::vector<std::string> classes = Config::read(file).get_strings("architectures");
  if (!classes.empty() && classes[0] != model.architecture())
    fail("{}: is a checkpoint of {}, and this run trains {}; resume it with the task that it was trained for",
         directory.string(), classes[0], model.architecture());
}

}  // namespace

void load_run(const std::filesystem::path& directory, Model& model, TrainStep& step, Schedule& schedule,
              TrainerState& state) {
  if (!file_exists(directory / kState))
    fail("{}: expected a checkpoint of a run, which holds {}; found none", directory.string(), kState);
  expect_same_class(directory, model);
  state = TrainerState::load(directory / kState);
  if (path_exists(directory / kManifest) && ShardedTensorFiles::exists(directory))
    check_files(directory, Manifest::read(directory), process_rank(), process_count());
  load_parameters(directory, model, step.sharding());
  if (is_torch_checkpoint(directory) && !path_exists(directory / kOptimizer)) {
    load_torch_run(directory, model, step, schedule, state.global_step);
    return;
  }
  schedule.load(read_json(directory / kSchedule));
  if (ShardedTensorFiles::exists(directory, kOptimizerShards)) {
    const ShardedTensorFiles files = ShardedTensorFiles::open(directory, kOptimizerShards);
    if (step.sharding())
      return load_states(files, state.global_step, *step.sharding(), step.optimizer(), step.parameters());
    std::vector<std::pair<std::string, Tensor>> whole;
    for (const auto& [name, type] : files.tensors())
      whole.emplace_back(name, step.loaded_state(files.whole(name).bytes, {type.dtype, type.shape}));
    return step.optimizer().load(state.global_step, std::move(whole), step.parameters());
  }
  const SafetensorsFile file = SafetensorsFile::open(directory / kOptimizer);
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& [name, view] : file.tensors())
    tensors.emplace_back(name, step.loaded_state(view.bytes, {view.dtype, view.shape}));
  step.optimizer().load(state.global_step, std::move(tensors), step.parameters());
}

}  // namespace transom
