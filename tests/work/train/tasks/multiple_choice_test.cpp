// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/message.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/tasks/task_data.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

constexpr const char* kRows =
    "sent1,sent2,ending0,ending1,label\nAnn went,the,tower,old tower is old,1\nRome,is,old,very,0\n";

TEST(MultipleChoice, PairsTheContextWithEveryEnding) {
  const TinyModel model;
  const TaskSetup setup = prepare_task(model.arguments({"--train_file", model.write("train.csv", kRows)}));
  const Batch batch = setup.train->batch({0});
  EXPECT_EQ(batch.sequences.at("input_ids"),
            (PaddedRows{2, 10, {kCls, kAnn, kWent, kSep, kThe, kTower, kSep,   kPad, kPad, kPad,
                                kCls, kAnn, kWent, kSep, kThe, kOld,   kTower, kIs,  kOld, kSep}}));
  EXPECT_EQ(setup.train->lengths, (std::vector<int64_t>{10, 6}));
}

TEST(MultipleChoice, GivesTheModelOneRowForAllEndings) {
  const TinyModel model;
  const TaskSetup setup = prepare_task(model.arguments({"--train_file", model.write("train.csv", kRows)}));
  const NamedTensors inputs = to_inputs(setup.train->batch({0, 1}), *setup.model);
  EXPECT_EQ(inputs.at("input_ids").shape(), (Shape{2, 2, 10}));
  EXPECT_EQ(inputs.at("labels").to_vector<int64_t>(), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(setup.model->forward(inputs).at("logits").shape(), (Shape{2, 2}));
}

TEST(MultipleChoice, ScoresAndWritesWhatWasChosen) {
  const TinyModel model;
  const TaskSetup setup = prepare_task(model.arguments({"--test_file", model.write("test.csv", kRows)}));
  Predictions predictions{.rows = 2};
  predictions.outputs = {{"logits", {2, 2}, {0, 1, 0, 1}}};
  predictions.labels = {1, 0};
  EXPECT_EQ(setup.write_predictions(predictions, model.path()), (Metrics{{"accuracy", 0.5}}));
  EXPECT_EQ(model.read("predict_results.txt"), "index\tprediction\n0\t1\n1\t1\n");
}

TEST(MultipleChoice, RefusesALabelThatIsNoEnding) {
  const TinyModel model;
  const std::string file = model.write("train.csv", "sent1,sent2,ending0,ending1,label\na,b,c,d,2\n");
  const TrainArguments arguments = model.arguments({"--train_file", file});
  EXPECT_EQ(test::message_without_folders([&] { prepare_task(arguments); }),
            "train.csv: row 1, column 'label': expected the number of an ending below 2, found '2'");
}

}  // namespace
}  // namespace transom
