// SPDX-License-Identifier: Apache-2.0
// Stages, schedules, and the cut of a graph into the programs of stages, all of them in this process.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "graph/ir/node.h"
#include "models/sharding/pipeline/cut.h"
#include "models/sharding/pipeline/schedule.h"
#include "models/sharding/pipeline/stages.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

TEST(PipelineStages, AreNeighboursAndBalanced) {
  std::vector<StagedWeight> weights{{"model.embed.weight", 1}};
  for (int i = 0; i < 6; ++i) {
    weights.push_back({"model.layers." + std::to_string(i) + ".attention.weight", 30});
    weights.push_back({"model.layers." + std::to_string(i) + ".mlp.weight", 70});
  }
  weights.push_back({"model.norm.weight", 1});
  weights.push_back({"lm_head.weight", 200});
  const PipelineStages stages(weights, 4);
  const auto of = [&](const char* name) { return stages.stage_of(name).value_or(-1); };
  EXPECT_EQ(of("model.embed"), 0);
  EXPECT_EQ(of("model.layers.1.attention.weight"), 0);
  EXPECT_EQ(of("model.layers.2"), 1);
  EXPECT_EQ(of("model.layers.5.mlp"), 2);
  EXPECT_EQ(of("lm_head"), 3);
  EXPECT_EQ(of("model.layers"), -1);
  EXPECT_EQ(of("model"), -1);
  EXPECT_EQ(of(""), -1);
  EXPECT_EQ(stages.describe()[0], "model.embed .. model.layers.1");
  EXPECT_THROW(PipelineStages(weights, 10), Error);
  EXPECT_EQ(unit_of_weight("encoder.block.11.layer.0.wi.weight"), "encoder.block.11");
  EXPECT_EQ(unit_of_weight("classifier.weight"), "classifier");
  EXPECT_EQ(unit_of_weight("cls_token"), "cls_token");
}

TEST(PipelineSchedule, RespectsWhatPassesNeed) {
  for (const PipelineSchedule schedule : {PipelineSchedule::kGPipe, PipelineSchedule::k1F1B})
    for (int64_t p = 1; p <= 5; ++p)
      for (int64_t m = 1; m <= 7; ++m) {
        std::set<std::array<int64_t, 3>> done;
        std::map<int64_t, int64_t> held;
        const std::vector<PipelineTask> tasks = pipeline_tasks(schedule, p, p, m);
        EXPECT_EQ(tasks.size(), static_cast<size_t>(2 * p * m));
        for (const PipelineTask& task : tasks) {
          const int64_t s = task.stage, i = task.micro_batch;
          if (!task.backward && s > 0) {
            EXPECT_TRUE(done.contains({s - 1, i, 0}));
          }
          if (task.backward) {
            EXPECT_TRUE(done.contains({s, i, 0}));
          }
          if (task.backward && s + 1 < p) {
            EXPECT_TRUE(done.contains({s + 1, i, 1}));
          }
          EXPECT_TRUE(done.insert({s, i, task.backward}).second);
          held[s] += task.backward ? -1 : 1;
          EXPECT_LE(held[s], schedule == PipelineSchedule::k1F1B ? std::min(m, p - s) : m);
        }
        EXPECT_EQ(pipeline_tasks(schedule, p, p, m, false).size(), static_cast<size_t>(p * m));
      }
}

// When the last pass ends if each process carries out its tasks in this order, a forward pass of a stage takes one, a
// backward pass two.
int64_t duration(const std::vector<PipelineTask>& tasks, int64_t stages, int64_t processes) {
  std::map<std::array<int64_t, 3>, int64_t> ends;
  std::map<int64_t, int64_t> free_at;
  int64_t last = 0;
  for (const PipelineTask& task : tasks) {
    const int64_t s = task.stage, i = task.micro_batch;
    int64_t begin = free_at[s % processes];
    if (!task.backward && s > 0) begin = std::max(begin, ends.at({s - 1, i, 0}));
    if (task.backward) begin = std::max(begin, s + 1 < stages ? ends.at({s + 1, i, 1}) : ends.at({s, i, 0}));
    const int64_t end = begin + (task.backward ? 2 : 1);
    ends[{s, i, task.backward}] = free_at[s % processes] = end;
    last = std::max(last, end);
  }
  return last;
}

TEST(PipelineSchedule, InterleavedStagesStandStillForLess) {
  for (int64_t p = 2; p <= 5; ++p)
    for (int64_t v = 2; v <= 4; ++v)
      for (int64_t m = 1; m <= 11; ++m) {
        const std::vector<PipelineTask> tasks = pipeline_tasks(PipelineSchedule::kInterleaved, p * v, p, m);
        std::set<std::array<int64_t, 3>> once;
        std::map<int64_t, int64_t> held;
        for (const PipelineTask& task : tasks) {
          EXPECT_TRUE(once.insert({task.stage, task.micro_batch, task.backward}).second);
          const int64_t process = task.stage % p;
          held[process] += task.backward ? -1 : 1;
          EXPECT_LE(held[process], 2 * (p - process - 1) + (v - 1) * p + 1) << p << " " << v << " " << m;
        }
        EXPECT_EQ(tasks.size(), static_cast<size_t>(2 * p * v * m));
        const int64_t took = duration(tasks, p * v, p);
        // In units of a stage of the plain schedule, which has v times the layers: 3 v (m + p - 1).
        if (m % p == 0) {
          EXPECT_EQ(took, 3 * (m * v + p - 1)) << p << " " << v << " " << m;
        }
        // What is left out takes no longer than what is there.
        const int64_t rounded = (m + p - 1) / p * p;
        EXPECT_LE(took, 3 * (rounded * v + p - 1)) << p << " " << v << " " << m;
        EXPECT_EQ(pipeline_tasks(PipelineSchedule::kInterleaved, p * v, p, m, false).size(),
                  static_cast<size_t>(p * v * m));
      }
}

// Three layers on three stages; the last one uses the weight of the first one again.
TEST(PipelineCut, ComputesWhatTheWholeGraphComputes) {
  const ModeScope traced(Mode::kLazy);
  const auto weight = [](int seed) {
    std::vector<float> values;
    for (int i = 0; i < 16; ++i) values.push_back(static_cast<float>((i * 7 + seed) % 11 - 5) / 8);
    Tensor tensor = Tensor::from(values, {4, 4});
    tensor.set_requires_grad();
    return tensor;
  };
  const std::vector<Tensor> weights{weight(1), weight(4), weight(9)};
  const Tensor x = Tensor::from(std::vector<float>{1, -2, 3, 0, 0.5, 1, -1, 2}, {2, 4});
  const PipelineStages stages({{"layers.0.weight", 1}, {"layers.1.weight", 1}, {"layers.2.weight", 1}}, 3);
  const auto in = [](const char* name) { return intern_scope(name); };
  const auto build = [&](uint64_t* backward_from) {
    Tensor h = x;
    for (int i = 0; i < 3; ++i) {
      const UseScope scope(in(("layers." + std::to_string(i) + ".mlp").c_str()));
      h = h + gelu(matmul(h, weights[static_cast<size_t>(i)]));
      if (i == 2) h = matmul(h, permute(weights[0], {1, 0}));
    }
    const Tensor loss = sum(h * h);
    *backward_from = make_input({}).node()->sequence;
    std::vector<Tensor> outputs = gradients(loss, weights);
    outputs.push_back(loss.detach());
    return outputs;
  };
  uint64_t backward_from = 0;
  std::vector<Tensor> expected = build(&backward_from);
  const std::vector<Tensor> outputs = build(&backward_from);
  const PipelineCut cut(outputs, {0, 1, 2, std::nullopt}, weights, stages, backward_from);
  EXPECT_EQ(cut.weights_of_stages()[1], std::vector<size_t>{1});
  EXPECT_EQ(cut.weights_of_stages()[2], (std::vector<size_t>{0, 2}));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(cut.outputs()[i], (PipelineCut::Place{static_cast<int64_t>(i), true})) << i;
  EXPECT_EQ(cut.outputs()[3]->stage, 2);

  // Each stage knows what it made and what it was sent.
  std::vector<TensorMap<Tensor>> known(3);
  for (const PipelineTask& task : pipeline_tasks(PipelineSchedule::k1F1B, 3, 3, 1)) {
    const PipelineCut::Place place{task.stage, task.backward};
    auto& mine = known[static_cast<size_t>(task.stage)];
    for (const auto& [value, made] : cut.program(place, mine)) {
      eval({made});
      mine.insert_or_assign(value, make_input(made.type(), made.node()->storage(0)));
    }
    for (const PipelineCut::Message& message : cut.messages_after(place)) {
      EXPECT_EQ(message.from, task.stage);
      known[static_cast<size_t>(message.to)].insert_or_assign(message.value, mine.at(message.value));
    }
  }
  eval(expected);
  for (size_t i = 0; i < outputs.size(); ++i)
    EXPECT_EQ(known[i < 3 ? i : 2].at(outputs[i]).to_vector<float>(), expected[i].to_vector<float>()) << i;
}

}  // namespace
}  // namespace transom
