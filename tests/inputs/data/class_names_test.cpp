// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/class_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>

namespace transom {
namespace {

using Names = std::vector<std::string>;
using Ids = std::vector<int64_t>;
using How = ClassMatch::How;

TEST(ClassNames, AreFoundByName) {
  EXPECT_EQ(match_classes({"b", "a"}, {"a", "x", "b"}).how, How::kSame);
  EXPECT_EQ(match_classes({"b", "a"}, {"a", "x", "b"}).ids, (Ids{2, 0}));
  EXPECT_EQ(match_classes({"entailment", "Neutral"}, {"CONTRADICTION", "NEUTRAL", "ENTAILMENT"}).how,
            How::kWithoutCase);
  EXPECT_EQ(match_classes({"entailment", "Neutral"}, {"CONTRADICTION", "NEUTRAL", "ENTAILMENT"}).ids, (Ids{2, 1}));
  EXPECT_EQ(match_classes({"\u00e9t\u00e9"}, {"\u00c9T\u00c9", "HIVER"}).how, How::kWithoutCase) << "beyond ASCII";
  EXPECT_EQ(match_classes({"a", "A"}, {"a", "b"}).how, How::kNone) << "two labels of one class";
  EXPECT_EQ(match_classes({"a"}, {"A", "\u00e0", "Aa", "aA"}).how, How::kNone) << "two classes of one name";
  EXPECT_EQ(match_classes({"a", "A"}, {"A", "a"}).how, How::kSame);
}

TEST(ClassNames, AreFoundByNumber) {
  EXPECT_EQ(match_classes({"0", "2"}, {"LABEL_0", "LABEL_1", "LABEL_2"}).ids, (Ids{0, 2}));
  EXPECT_EQ(match_classes({"0", "2"}, {"no", "maybe", "yes"}).how, How::kNumbers);
  EXPECT_EQ(match_classes({"0", "3"}, {"no", "maybe", "yes"}).how, How::kNone);
  EXPECT_EQ(match_classes({"00", "1"}, {"no", "yes"}).how, How::kNone);
  // Stars: class 0 is called 1.
  EXPECT_EQ(match_classes({"1", "2"}, {"1", "2", "3"}).ids, (Ids{0, 1}));
  EXPECT_EQ(match_classes({"0", "2"}, {"1", "2", "3"}).how, How::kNone);
}

TEST(ClassNames, TakeThePlacesOfUnnamedOnes) {
  EXPECT_EQ(match_classes({"neg", "pos"}, {"LABEL_0", "LABEL_1"}).how, How::kInOrder);
  EXPECT_EQ(match_classes({"neg", "pos"}, {"LABEL_0", "LABEL_1"}).ids, (Ids{0, 1}));
  EXPECT_EQ(match_classes({"pos"}, {"LABEL_0", "LABEL_1"}).how, How::kNone) << "the first or the second";
  EXPECT_EQ(match_classes({"x", "y"}, {"a", "b"}).how, How::kNone);
}

// Whatever the order of both, and however many of the classes are there.
TEST(ClassNames, OfAnyOrderMeanTheSame) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Names classes;
    for (int i = 0; i < 6; ++i) classes.push_back(std::string(1, static_cast<char>('a' + i)) + "Name");
    std::shuffle(classes.begin(), classes.end(), random);
    Names labels;
    for (const std::string& name : classes) {
      if (random() % 3 == 0) continue;
      std::string label = name;
      for (char& c : label)
        c = static_cast<char>(random() % 2 == 0 ? std::tolower(static_cast<unsigned char>(c))
                                                : std::toupper(static_cast<unsigned char>(c)));
      labels.push_back(label);
    }
    std::shuffle(labels.begin(), labels.end(), random);
    const ClassMatch match = match_classes(labels, classes);
    ASSERT_EQ(match.ids.size(), labels.size());
    for (size_t i = 0; i < labels.size(); ++i)
      EXPECT_EQ(std::tolower(static_cast<unsigned char>(labels[i][0])), classes[static_cast<size_t>(match.ids[i])][0]);
  }
}

}  // namespace
}  // namespace transom
