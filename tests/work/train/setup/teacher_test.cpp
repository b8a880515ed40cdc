// SPDX-License-Identifier: Apache-2.0
// --teacher_model: from the arguments to a run, and what is refused.
#include "work/train/setup/teacher.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/json/json.h"
#include "support/message.h"
#include "transom/fine_tuning.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

constexpr const char* kRows = "sentence1,sentence2,label\nann went,to rome,yes\nthe tower,is old,no\nann is,old,yes\n";

// The folder's model as one that classifies, in a folder beside it.
std::string trained(const TinyModel& model, std::string_view vocabulary = kTinyVocabulary,
                    const std::string& task = "text-classification") {
  LoadOptions options{.task = task};
  if (task == "text-classification") options.labels = {"no", "yes"};
  const std::string path = (model.path() / "teacher").string();
  Model::from_pretrained(model.path().string(), options)->save_pretrained(path);
  model.write("teacher/vocab.txt", vocabulary);
  return path;
}

std::vector<double> losses(const TinyModel& model, const std::vector<std::string>& more) {
  std::vector<std::string> flags{"--task",
                                 "text-classification",
                                 "--train_file",
                                 model.write("train.csv", kRows),
                                 "--max_steps",
                                 "3",
                                 "--logging_steps",
                                 "1",
                                 "--save_strategy",
                                 "no",
                                 "--overwrite_output_dir"};
  flags.insert(flags.end(), more.begin(), more.end());
  fine_tune(model.arguments(flags));
  std::vector<double> result;
  const Json state = parse_json(model.read("trainer_state.json"), "state");
  for (const auto& entry : state.at("log_history"))
    if (entry.contains("loss")) result.push_back(entry.at("loss").get<double>());
  return result;
}

TEST(Teacher, TakesPartInTheLossByItsWeight) {
  const TinyModel model(R"(, "initializer_range": 0.5)"), same(R"(, "initializer_range": 0.5)"),
      plain(R"(, "initializer_range": 0.5)");
  const std::string teacher = trained(model);
  const std::vector<double> alone = losses(plain, {});
  ASSERT_EQ(alone.size(), 3u);
  EXPECT_EQ(losses(same, {"--teacher_model", teacher, "--distillation_weight", "0"}), alone);
  const std::vector<double> taught =
      losses(model, {"--teacher_model_name_or_path", teacher, "--alpha", "1", "--temperature", "4"});
  ASSERT_EQ(taught.size(), 3u);
  EXPECT_LT(taught[0], alone[0]);
  // Of equal distributions nothing is left but rounding: the divergence is T^2 times a mean of differences of
  // logarithms, each of which is within a few units of itself, at most 4 here.
  const double rounding = 4 * 4 * 4 * std::numeric_limits<float>::epsilon() * 4;
  EXPECT_GE(taught[0], -rounding);
}

TEST(Teacher, OfTwoTextsGetsTheTypesThatTheStudentDoesNotTell) {
  const TinyModel model;
  const TrainArguments arguments = model.arguments({"--teacher_model", trained(model)});
  const Teacher teacher = load_teacher(arguments, {});
  ASSERT_TRUE(teacher.inputs_of);
  const auto ids = Tensor::from(std::vector<int64_t>{kCls, kAnn, kSep, kTo, kRome, kSep, kPad, kPad,  //
                                                     kCls, kAnn, kWent, kTo, kRome, kSep, kPad, kPad},
                                {2, 8});
  const auto mask = Tensor::from(std::vector<int64_t>{1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0}, {2, 8});
  EXPECT_EQ(teacher.inputs_of({{"input_ids", ids}, {"attention_mask", mask}}).at("token_type_ids").to_vector<int64_t>(),
            (std::vector<int64_t>{0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const auto given = Tensor::from(std::vector<int64_t>(16, 1), {2, 8});
  EXPECT_EQ(teacher.inputs_of({{"input_ids", ids}, {"token_type_ids", given}}).at("token_type_ids").node(),
            given.node());
}

TEST(Teacher, RefusesWhatTeachesNothing) {
  const TinyModel model;
  const auto refusal = [&](const std::string& teacher) {
    return test::message_of([&] { load_teacher(model.arguments({"--teacher_model", teacher}), {}); });
  };
  std::string turned(kTinyVocabulary);
  turned.replace(turned.find("ann\nwent"), 8, "went\nann");
  const std::string teacher = trained(model, turned);
  EXPECT_EQ(refusal(teacher), "--teacher_model: " + teacher +
                                  ": expected the tokens of the model that is trained, found 'went' with the id 5, "
                                  "which is 'ann' there; a teacher needs the same tokenizer");
  // A body without a head.
  model.write("teacher/vocab.txt", kTinyVocabulary);
  std::string config = model.read("config.json");
  config.replace(config.find("BertModel"), 9, "BertForMaskedLM");
  model.write("config.json", config);
  EXPECT_NE(refusal(model.path().string()).find("the checkpoint lacks"), std::string::npos)
      << refusal(model.path().string());
}

}  // namespace
}  // namespace transom
