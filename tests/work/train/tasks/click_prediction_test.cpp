// SPDX-License-Identifier: Apache-2.0
// From click logs to a DLRM, whose tables are updated by the rows that were used.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/files/files.h"
#include "base/numbers/mt19937.h"
#include "models/nn/sparse_lookups.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/step/train_step.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

constexpr const char* kConfig = R"({"model_type": "dlrm", "architectures": ["DLRM_Net"], "arch_sparse_feature_size": 4,
  "arch_embedding_size": [20, 6], "arch_mlp_bot": [2, 8, 4], "arch_mlp_top": [8, 1], "loss_function": "bce"})";

class ClickTraining : public testing::Test {
 protected:
  void SetUp() override { write_file(folder_ / "config.json", kConfig); }

  TrainArguments arguments(const std::string& rows) const {
    write_file(folder_ / "rows.csv", rows);
    TrainArguments result;
    result.script.config_name = (folder_ / "config.json").string();
    result.script.train_file = result.script.validation_file = (folder_ / "rows.csv").string();
    result.training.output_dir = (folder_ / "out").string();
    result.training.optim = "adagrad";
    result.training.per_device_train_batch_size = 32;
    result.training.num_train_epochs = 20;
    result.training.learning_rate = 0.1;
    result.training.do_train = result.training.do_eval = true;
    result.training.resolve();
    return result;
  }
  test::TemporaryFolder folder_;
};

TEST_F(ClickTraining, RowsAreNumbersAndCategories) {
  const TaskSetup task = prepare_task(arguments("label,I1,I2,C1,C2\n1,3,0.5,0000001f,2\n0,,-1.5,a,5\n1,0,0,,0\n"));
  const Batch batch = task.train->batch({0, 1, 2});
  EXPECT_EQ(batch.label_values, (std::vector<float>{1, 0, 1}));
  const std::vector<float> dense = batch.arrays.at("dense_x").values;
  EXPECT_FLOAT_EQ(dense[0], std::log(4.0f));  // a count
  EXPECT_FLOAT_EQ(dense[1], 0.5f);
  EXPECT_FLOAT_EQ(dense[2], 0);  // missing
  EXPECT_FLOAT_EQ(dense[3], -1.5f);
  EXPECT_EQ(batch.numbers.at("lS_i.0"), (std::vector<int64_t>{31 % 20, 10, 0}));
  EXPECT_EQ(batch.numbers.at("lS_i.1"), (std::vector<int64_t>{2, 5, 0}));
  EXPECT_EQ(batch.sequences.at("lS_o").values, (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
}

TEST_F(ClickTraining, RefusesWhatDoesNotFit) {
  EXPECT_NE(test::message_of([&] {
              prepare_task(arguments("label,I1,I2,C1,C2\n1,1,1,1,6\n")).train->batch({0});
            }).find("--max_ind_range 6"),
            std::string::npos);
  EXPECT_NE(test::message_of([&] { prepare_task(arguments("label,I1,C1\n1,1,1\n")); }).find("2 columns of numbers"),
            std::string::npos);
}

TEST_F(ClickTraining, LearnsAPlantedRule) {
  Mt19937 random(3);
  std::string rows = "label,I1,I2,C1,C2\n";
  for (int i = 0; i < 400; ++i) {
    const int64_t first = random.randint(20), second = random.randint(6), count = random.randint(9);
    const bool click = (first % 3 == 0) != (second % 2 == 0);
    rows += fmt::format("{},{},{},{:x},{}\n", click ? 1 : 0, count, 0.25, first, second);
  }
  const TrainArguments given = arguments(rows);
  TaskSetup task = prepare_task(given);
  Trainer trainer(std::move(task.model), given.training);
  configure_trainer(trainer, task);
  trainer.train();
  double area = 0;
  for (const auto& [name, value] : trainer.evaluate())
    if (name == "eval_roc_auc") area = value;
  EXPECT_GT(area, 0.98);
}

NamedTensors batch(std::vector<int64_t> first, std::vector<int64_t> second) {
  const auto rows = static_cast<int64_t>(first.size());
  std::vector<float> dense, labels;
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < rows; ++i) {
    dense.insert(dense.end(), {0.3f * static_cast<float>(i), 1.0f - static_cast<float>(i)});
    labels.push_back(static_cast<float>(i % 2));
  }
  for (int table = 0; table < 2; ++table)
    for (int64_t i = 0; i < rows; ++i) offsets.push_back(i);
  return {{"dense_x", Tensor::from(dense, {rows, 2})},
          {"lS_i.0", Tensor::from(first, {rows})},
          {"lS_i.1", Tensor::from(second, {rows})},
          {"lS_o", Tensor::from(offsets, {2, rows})},
          {"labels", Tensor::from(labels, {rows})}};
}

// Updates by rows against those with whole gradients: the same sums, norms and numbers.
void expect_the_same(const std::string& optim, double max_grad_norm) {
  const std::vector<NamedTensors> micro_batches = {batch({3, 3, 7}, {1, 1, 1}), batch({3, 0, 19}, {0, 5, 1})};
  TrainingArguments arguments;
  arguments.optim = optim;
  arguments.max_grad_norm = max_grad_norm;
  const auto by_rows = Model::from_config(kConfig), whole = Model::from_config(kConfig);
  TrainStep step(*by_rows, arguments);
  const auto optimizer = make_optimizer({.name = optim});
  for (int64_t i = 0; i < 3; ++i) {
    const TrainStep::Result result = step(micro_batches, 0.1, i);
    std::vector<OptimizedParameter> parameters;
    std::vector<Tensor> values, sums;
    for (const auto& parameter : whole->parameters()) {
      parameters.push_back({parameter->name, parameter->value});
      values.push_back(parameter->value);
    }
    for (const NamedTensors& inputs : micro_batches) {  // of three rows each: the mean of both is that of all rows
      const Tensor loss = whole->forward(inputs, {.training = true, .return_loss = true}).at("loss");
      const auto found = gradients(loss * 0.5, values);
      for (size_t k = 0; k < found.size(); ++k)
        sums.size() < found.size() ? sums.push_back(found[k]) : void(sums[k] = sums[k] + found[k]);
    }
    const Tensor norm = global_norm(sums);
    if (max_grad_norm > 0) sums = clip_by_norm(sums, norm, max_grad_norm);
    const auto next = optimizer->step(parameters, sums, 0.1);
    eval(next);
    EXPECT_NEAR(result.gradient_norm.item<float>(), norm.item<float>(), 1e-6);
    for (size_t k = 0; k < next.size(); ++k) {
      whole->parameters()[k]->value = next[k];
      whole->parameters()[k]->value.set_requires_grad();
      const auto a = by_rows->parameters()[k]->value.to_vector<float>(), b = next[k].to_vector<float>();
      for (size_t j = 0; j < a.size(); ++j) ASSERT_NEAR(a[j], b[j], 1e-6) << parameters[k].name << " at " << j;
    }
  }
}

TEST(SparseEmbeddings, SgdByRowsIsSgd) {
  expect_the_same("sgd", 0);
  expect_the_same("sgd", 0.05);
}
TEST(SparseEmbeddings, AdagradByRowsIsAdagrad) { expect_the_same("adagrad", 0); }
// Adam moves every row at every step: it takes whole gradients.
TEST(SparseEmbeddings, AdamTakesWholeGradients) {
  EXPECT_FALSE(make_optimizer({.name = "adamw_torch"})->takes_rows());
  EXPECT_FALSE(make_optimizer({.name = "sgd", .settings = "momentum=0.9"})->takes_rows());
  EXPECT_TRUE(make_optimizer({.name = "sgd"})->takes_rows());
  expect_the_same("adamw_torch", 1);
}

TEST(SparseEmbeddings, RowsOfOneIndexAreAdded) {
  const RowGradient found = coalesced(Tensor::from(std::vector<int64_t>{4, 2, 4, 0}, {4}),
                                      Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}));
  EXPECT_EQ(found.indices.to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 4, 0}));
  EXPECT_EQ(found.rows.to_vector<float>(), (std::vector<float>{7, 8, 3, 4, 6, 8, 0, 0}));
}

TEST(SparseEmbeddings, LookupsAreNotedForThePassThatCollectsThem) {
  const auto model = Model::from_config(kConfig);
  const NamedTensors inputs = batch({3, 3, 7}, {1, 1, 1});
  std::vector<SparseLookup> lookups;
  model->forward(inputs);
  model->forward(inputs, {.computing = {.lookups = &lookups}});
  ASSERT_EQ(lookups.size(), 2u);
  EXPECT_EQ(lookups[0].table->name, "emb_l.0.weight");
  EXPECT_EQ(lookups[0].rows.shape(), (Shape{3, 4}));
}

// Tables of which few rows are updated keep them, too, where an update is refused.
TEST(SparseUpdates, ThatAreNotFiniteAreRefused) {
  for (const char* optim : {"sgd", "adagrad"}) {
    TrainingArguments arguments;
    arguments.optim = optim;
    const auto plain = Model::from_config(kConfig), careful = Model::from_config(kConfig);
    TrainStep step(*plain, arguments), refusing(*careful, arguments);
    refusing.refuse_updates_that_are_not_finite(false);
    const auto expect_same = [&](int64_t i) {
      for (size_t k = 0; k < plain->parameters().size(); ++k)
        EXPECT_EQ(plain->parameters()[k]->value.to_bytes(), careful->parameters()[k]->value.to_bytes())
            << optim << " " << plain->parameters()[k]->name << " " << i;
      for (size_t k = 0; k < step.optimizer().state().size(); ++k)
        EXPECT_EQ(step.optimizer().state()[k].second.to_bytes(), refusing.optimizer().state()[k].second.to_bytes());
    };
    for (int64_t i = 0; i < 3; ++i) {
      for (TrainStep* each : {&step, &refusing}) each->operator()({batch({3, 3, 7}, {1, 1, 1})}, 0.1, i);
      expect_same(i);
      NamedTensors broken = batch({3, 0, 19}, {0, 5, 1});
      broken.set("dense_x", Tensor::from(std::vector<float>(6, NAN), {3, 2}));
      EXPECT_FALSE(std::isfinite(refusing({broken}, 0.1, i + 1).gradient_norm.item<float>()));
      expect_same(i);
      refusing({batch({3, 3, 7}, {1, 1, 1})}, 0.1, i + 2);  // nor is what comes behind it
      expect_same(i);
      refusing.take_back(2);
    }
  }
}

}  // namespace
}  // namespace transom
