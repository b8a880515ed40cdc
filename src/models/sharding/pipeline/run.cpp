// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/pipeline/run.h"

#include <set>
#include <utility>

#include "base/error.h"
#include "runtime/device/communicator.h"
#include "runtime/tensor/evaluate.h"
#include "transom/ops.h"

namespace transom {
namespace {

// The outputs of an update, added up over its micro-batches.
class OutputSums {
 public:
  explicit OutputSums(std::vector<Tensor>& sums) : sums_(sums) {}
  void add(size_t output, const Tensor& value) {
    const CompilerScope compiler;
    Tensor& sum = sums_[output];
    sum = sum.defined() ? sum + value : value;
  }
  // Adds what a pass gave of a micro-batch. Returns what is to be computed: the sums, and values that are none.
  std::vector<Tensor> add_pass(const PipelineCut& cut, const PipelineCut::Place& place, const PipelinedBatch& batch,
                               const std::vector<std::pair<Tensor, Tensor>>& made) {
    TensorMap<std::vector<size_t>> outputs;  // one tensor may be several of them
    for (size_t i = 0; i < cut.outputs().size(); ++i)
      if (cut.outputs()[i] == place) outputs[batch.outputs[i]].push_back(i);
    std::vector<Tensor> values;
    for (const auto& [traced, value] : made) {
      const auto output = outputs.find(traced);
      if (output == outputs.end()) {
        values.push_back(value);
        continue;
      }
      for (const size_t i : output->second) {
        add(i, value);
        values.push_back(sums_[i]);
      }
    }
    return values;
  }

 private:
  std::vector<Tensor>& sums_;
};

}  // namespace

PipelineRunner::PipelineRunner(const ProcessMesh& mesh, PipelineSchedule schedule, bool keeps_weights)
    : mesh_(mesh), schedule_(schedule), process_(mesh.coordinate(MeshAxis::kPipeline)), keeps_weights_(keeps_weights) {
  Communicator* all = default_device()->communicator();
  if (!all) fail(ErrorKind::kInternal, "a pipeline of {} stages in one process", mesh.size(MeshAxis::kPipeline));
  pipeline_ = &all->group(mesh.group({MeshAxis::kPipeline}));
}

void PipelineRunner::send(const Tensor& tensor, int64_t to) {
  if (tensor.size() == 0) return;
  pipeline_->start_send(*buffer_of(tensor), tensor.dtype(), static_cast<uint32_t>(to));
  in_flight_.push_back(tensor);
}

Tensor PipelineRunner::receive(const Type& type, int64_t from) {
  const auto buffer = default_device()->allocate(static_cast<size_t>(elements(type.shape)) * size_of(type.dtype));
  if (elements(type.shape) > 0) {
    pipeline_->start_receive(*buffer, type.dtype, static_cast<uint32_t>(from));
    waits_ = true;
  }
  return make_input(type, buffer);
}

void PipelineRunner::wait() {
  if (std::exchange(waits_, false)) pipeline_->wait();
}

// What the passes of a stage left that no other stage of this process needs.
void PipelineRunner::forget(const PipelineCut& cut, int64_t stage, const PipelineStages& stages,
                            TensorMap<Tensor>& known) const {
  TensorSet needed;
  for (const bool backward : {false, true})
    for (const PipelineCut::Message& message : cut.messages_after({stage, backward}))
      if (stages.process_of(message.to) == process_) needed.insert(message.value);
  for (const bool backward : {false, true})
    for (const Tensor& value : cut.made_at({stage, backward}))
      if (!needed.contains(value)) known.erase(value);
}

void PipelineRunner::exchange_weights(const std::vector<std::vector<size_t>>& weights_of_stages,
                                      const std::vector<PipelineWeight>& weights, const PipelineStages& stages,
                                      std::vector<TensorMap<Tensor>>& known) {
  // Tied embeddings, say, come anew for each update.
  std::set<std::pair<size_t, int64_t>> sent;
  for (size_t stage = 0; stage < weights_of_stages.size(); ++stage)
    for (const size_t number : weights_of_stages[stage]) {
      const PipelineWeight& weight = weights[number];
      const int64_t from = stages.process_of(weight.home), to = stages.process_of(static_cast<int64_t>(stage));
      if (from == to || !sent.emplace(number, to).second) continue;
      if (from == process_ && (!keeps_weights_ || kept_by_[weight.local].insert(to).second)) send(weight.local, to);
      if (to != process_) continue;
      const auto kept = kept_.find(weight.local);
      const Tensor copy = kept == kept_.end() ? receive(weight.local.type(), from) : kept->second;
      if (keeps_weights_) kept_.emplace(weight.local, copy);
      for (auto& each : known) each.emplace(weight.local, copy);
    }
}

PipelineResult PipelineRunner::run(const std::vector<PipelinedBatch>& batches,
                                   const std::vector<PipelineWeight>& weights, const PipelineStages& stages,
                                   bool backward) {
  std::vector<Tensor> leaves;
  for (const PipelineWeight& weight : weights) leaves.push_back(weight.local);
  std::vector<PipelineCut> cuts;
  for (const PipelinedBatch& batch : batches)
    cuts.emplace_back(batch.outputs, batch.homes, leaves, stages, batch.backward_from, batch.kept);
  std::vector<TensorMap<Tensor>> known(batches.size());
  exchange_weights(cuts[0].weights_of_stages(), weights, stages, known);
  PipelineResult result;
  result.outputs.resize(batches[0].outputs.size());
  for (const auto& place : cuts[0].outputs())
    result.processes.push_back(place ? std::optional(stages.process_of(place->stage)) : std::nullopt);
  OutputSums sums(result.outputs);
  for (const PipelineTask& task :
       pipeline_tasks(schedule_, stages.stages(), stages.processes(), static_cast<int64_t>(batches.size()), backward)) {
    const auto number = static_cast<size_t>(task.micro_batch);
    const PipelineCut& cut = cuts[number];
    const PipelineCut::Place place{task.stage, task.backward};
    const bool is_mine = stages.process_of(task.stage) == process_;
    if (is_mine) {
      auto made = cut.program(place, known[number]);
      std::vector<Tensor> values = sums.add_pass(cut, place, batches[number], made);
      wait();
      eval(values);
      for (auto& [traced, value] : made) known[number].insert_or_assign(traced, value);
    }
    TensorMap<std::set<int64_t>> went;  // a value goes to a process once, whichever of its stages need it
    for (const PipelineCut::Message& message : cut.messages_after(place)) {
      const int64_t from = stages.process_of(message.from), to = stages.process_of(message.to);
      if (from == to || !went[message.value].insert(to).second) continue;
      if (from == process_) send(known[number].at(message.value), to);
      if (to == process_) known[number].insert_or_assign(message.value, receive(message.value.type(), from));
    }
    // The last pass of the micro-batch here.
    const bool last = backward ? task.backward && task.stage < stages.processes()
                               : task.stage + stages.processes() >= stages.stages();
    if (is_mine && last) known[number].clear();
    else if (is_mine && task.backward) forget(cut, task.stage, stages, known[number]);
  }
  for (size_t i = 0; i < batches[0].outputs.size(); ++i) {
    if (result.processes[i]) continue;
    for (const PipelinedBatch& batch : batches) sums.add(i, batch.outputs[i]);
    eval({&result.outputs[i], 1});
  }
  // Gradients that arise where the weight is used, and not where it is at home.
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    const std::optional<int64_t> stage = batches[0].homes.at(i);
    std::optional<int64_t>& from = result.processes[i];
    if (!stage || !from) continue;
    const int64_t home = stages.process_of(*stage);
    if (*from == home) continue;
    if (*from == process_) send(result.outputs[i], home);
    if (home == process_) result.outputs[i] = receive(batches[0].outputs[i].type(), *from);
    from = home;
  }
  // What was sent is let go once it is away.
  pipeline_->wait();
  waits_ = false;
  in_flight_.clear();
  return result;
}

Tensor PipelineRunner::shared(const Tensor& tensor, const Type& type, int64_t from) {
  Tensor result = tensor;
  if (process_ == from) {
    for (int64_t to = 0; to < mesh_.size(MeshAxis::kPipeline); ++to)
      if (to != from) send(tensor, to);
  } else {
    result = receive(type, from);
  }
  pipeline_->wait();
  waits_ = false;
  in_flight_.clear();
  return result;
}

}  // namespace transom
