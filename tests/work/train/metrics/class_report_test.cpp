// SPDX-License-Identifier: Apache-2.0
// Tables of classes against what scikit-learn's classification_report and seqeval's give.
#include "work/train/metrics/class_report.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace transom {
namespace {

TEST(ClassReport, IsThatOfScikitLearn) {
  ConfusionTable table({"calm", "angry", "glad", "never seen"});
  const std::vector<int64_t> labels{0, 0, 1, 1, 2, 2, 2, -100}, predictions{0, 1, 1, 1, 2, 0, 2, 1};
  for (size_t i = 0; i < labels.size(); ++i) table.add(labels[i], predictions[i]);
  EXPECT_EQ(table.total(), 7);
  EXPECT_EQ(table.text(),
            "class                      precision    recall        f1    number\n"
            "calm                          0.5000    0.5000    0.5000         2\n"
            "angry                         0.6667    1.0000    0.8000         2\n"
            "glad                          1.0000    0.6667    0.8000         3\n"
            "accuracy                                          0.7143         7\n"
            "macro average                 0.7222    0.7222    0.7000         7\n"
            "weighted average              0.7619    0.7143    0.7143         7\n");
}

// What is kept grows with what is counted, not with the square of the classes.
TEST(ClassReport, OfManyClassesHasThoseThatAreThere) {
  std::vector<std::string> names;
  for (int i = 0; i < 200000; ++i) names.push_back("class " + std::to_string(i));
  ConfusionTable table(names);
  for (int i = 0; i < 3; ++i) table.add(199999, 7);
  table.add(7, 7);
  EXPECT_EQ(table.total(), 4);
  const std::string text = table.text(), picture = table.picture();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
  EXPECT_NE(picture.find(">class 199999<"), picture.npos);
  EXPECT_NE(picture.find("the 199960 rarest classes are left out"), picture.npos);
}

TEST(ClassReport, HasALineForEachKindOfEntity) {
  const TagRows labels{{"B-PER", "I-PER", "O", "B-LOC"}, {"B-LOC", "O"}},
      predictions{{"B-PER", "I-PER", "O", "O"}, {"B-LOC", "B-PER"}};
  EXPECT_EQ(entity_report(labels, predictions),
            "class                      precision    recall        f1    number\n"
            "LOC                           1.0000    0.5000    0.6667         2\n"
            "PER                           0.5000    1.0000    0.6667         1\n"
            "all entities                  0.6667    0.6667    0.6667         3\n");
}

TEST(ClassReport, ThePictureHasAllThatIsCountedAndNoMarkupOfNames) {
  ConfusionTable table({"a<b>", "c & d"});
  for (int i = 0; i < 12; ++i) table.add(0, 0);
  for (int i = 0; i < 5; ++i) table.add(1, 0);
  const std::string picture = table.picture();
  EXPECT_NE(picture.find("a&lt;b&gt;"), picture.npos);
  EXPECT_NE(picture.find("c &amp; d"), picture.npos);
  EXPECT_EQ(picture.find("a<b>"), picture.npos);
  for (const char* count : {">12<", ">5<"}) EXPECT_NE(picture.find(count), picture.npos) << count;
  EXPECT_TRUE(picture.ends_with("</svg>\n"));
}

TEST(ClassReport, ThePictureLeavesTheRarestOut) {
  std::vector<std::string> names;
  for (int i = 0; i < 43; ++i) names.push_back("class" + std::to_string(i));
  ConfusionTable table(names);
  for (int64_t i = 3; i < 43; ++i) table.add(i, i);
  const std::string picture = table.picture();
  EXPECT_NE(picture.find("the 3 rarest classes are left out"), picture.npos);
  EXPECT_EQ(picture.find(">class0<"), picture.npos);
  EXPECT_NE(picture.find(">class42<"), picture.npos);
}

}  // namespace
}  // namespace transom
