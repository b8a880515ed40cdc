// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/model_classes.h"

#include <gtest/gtest.h>

#include "support/kept_log.h"
#include "support/message.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

using Names = std::vector<std::string>;

// What becomes of labels: the classes of those labels in order, the names of a new head, or the error.
std::string matched(const std::string& fields, const Names& names, bool training, std::vector<std::string> flags = {}) {
  const TinyModel model;
  model.write("config.json", R"({"model_type": "bert")" + fields + "}");
  Labels labels(LabelKind::kClasses, names);
  LoadOptions options;
  const std::string message =
      test::message_of([&] { match_to_model(labels, model.arguments(flags), training, "a.csv", options); });
  if (!message.empty()) return message.substr(0, message.find(model.path().string()));
  std::string result = options.labels.empty() ? "ids" : "new";
  for (const std::string& name : names)
    result += " " + (options.labels.empty() ? std::to_string(labels.id(name, "here")) : name);
  return result;
}

const std::string kNli =
    R"(, "architectures": ["BertForSequenceClassification"], "id2label": {"0": "CONTRADICTION", "1": "NEUTRAL", "2": "ENTAILMENT"})";
const std::string kUnnamed =
    R"(, "architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"})";

TEST(ModelClasses, AreMetWithoutRegardToCase) {
  for (const bool training : {false, true}) {
    EXPECT_EQ(matched(kNli, {"contradiction", "entailment", "neutral"}, training), "ids 0 2 1");
    EXPECT_EQ(matched(kNli, {"entailment"}, training), "ids 2") << "some of them";
    EXPECT_EQ(matched(kNli, {"CONTRADICTION", "ENTAILMENT", "NEUTRAL"}, training), "ids 0 2 1");
  }
}

TEST(ModelClasses, AreMetByTheirNumbersInEvaluation) {
  const test::KeptLog log;
  EXPECT_EQ(matched(kUnnamed, {"0", "2"}, false), "ids 0 2");
  EXPECT_EQ(log.text(), "");
  EXPECT_EQ(matched(kNli, {"0", "2"}, false), "ids 0 2");
  EXPECT_TRUE(
      log.has("its labels are numbers, taken as those of the model's classes: 0 is CONTRADICTION, 2 is "
              "ENTAILMENT"))
      << log.text();
  // A configuration that names none is of two classes.
  EXPECT_EQ(matched(R"(, "architectures": ["BertForSequenceClassification"])", {"1"}, false), "ids 1");
}

TEST(ModelClasses, OfOtherNamesAreRefusedInEvaluation) {
  EXPECT_EQ(matched(kNli, {"neutral", "x", "y"}, false),
            "a.csv: its labels x, y are not classes of the model, which are CONTRADICTION, NEUTRAL, ENTAILMENT; rename "
            "them, or use the model of these labels");
  EXPECT_TRUE(matched(kUnnamed, {"3"}, false).starts_with("a.csv: its labels 3 are not classes of the model"));
  EXPECT_TRUE(matched(kUnnamed, {"neg", "pos"}, false).starts_with("a.csv: its labels neg, pos are not classes"));
  const test::KeptLog log;
  EXPECT_EQ(matched(kUnnamed, {"a", "b", "c"}, false), "ids 0 1 2");
  EXPECT_TRUE(log.has("a is LABEL_0, b is LABEL_1, c is LABEL_2")) << log.text();
}

TEST(ModelClasses, TakeNewNamesInTrainingWithAWarning) {
  const test::KeptLog log;
  EXPECT_EQ(matched(kUnnamed, {"a", "b", "c"}, true), "new a b c");
  EXPECT_EQ(matched("", {"a", "b"}, true), "new a b");
  EXPECT_EQ(log.text(), "");
  EXPECT_EQ(matched(kNli, {"x", "y", "z"}, true), "new x y z");
  EXPECT_TRUE(
      log.has("its labels (x, y, z) are not the names of the model's classes (CONTRADICTION, NEUTRAL, "
              "ENTAILMENT)"))
      << log.text();
}

TEST(ModelClasses, OfAnotherNumberAreSaidAsLabelsAndClasses) {
  EXPECT_EQ(matched(kNli, {"a", "b"}, true), "a.csv: has 2 labels (a, b), and the head of ");
  EXPECT_EQ(matched(kNli, {"a", "b"}, true, {"--ignore_mismatched_sizes", "true"}), "new a b");
}

}  // namespace
}  // namespace transom
