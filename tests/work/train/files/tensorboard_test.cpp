// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/tensorboard.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string result;
  for (const int value : values) result += static_cast<char>(value);
  return result;
}

constexpr double kTime = std::bit_cast<double>(uint64_t{0x41DAC04C24F30512});

// The record that torch.utils.tensorboard wrote for add_scalar("train/loss", 1.5, 3).
TEST(TensorBoard, ScalarsAreThoseOfSummaryWriter) {
  EXPECT_EQ(tf_record(scalar_event(kTime, 3, "train/loss", 1.5F)),
            bytes({0x20, 0,    0,    0,    0,    0,    0,    0,    0x29, 0xed, 0xa9, 0x50, 0x09, 0x12, 0x05,
                   0xf3, 0x24, 0x4c, 0xc0, 0xda, 0x41, 0x10, 0x03, 0x2a, 0x13, 0x0a, 0x11, 0x0a, 0x0a}) +
                "train/loss" + bytes({0x15, 0, 0, 0xc0, 0x3f, 0x3f, 0xaf, 0x2a, 0x9f}));
}

TEST(TensorBoard, TextsAreThoseOfSummaryWriter) {
  EXPECT_EQ(text_event(kTime, "args", "{}").substr(9),
            bytes({0x2a, 0x2d, 0x0a, 0x2b, 0x0a, 0x11}) + "args/text_summary" +
                bytes({0x42, 0x0c, 0x08, 0x07, 0x12, 0x04, 0x12, 0x02, 0x08, 0x01, 0x42, 0x02}) + "{}" +
                bytes({0x4a, 0x08, 0x0a, 0x06, 0x0a, 0x04}) + "text");
}

TEST(TensorBoard, TagsAreThoseOfTheCallback) {
  EXPECT_EQ(tensorboard_tag("loss"), "train/loss");
  EXPECT_EQ(tensorboard_tag("eval_loss"), "eval/loss");
  EXPECT_EQ(tensorboard_tag("test_f1"), "test/f1");
}

TEST(TensorBoard, FilesHoldEveryRecordAtOnce) {
  const test::TemporaryFolder folder;
  TensorBoard board(folder.path() / "runs" / "one");
  board.text("args", "{}");
  board.log({{"loss", 1.5}, {"epoch", 0.5}, {"step", int64_t{3}}}, 3);
  const std::string file = read_file(board.path());
  EXPECT_TRUE(board.path().filename().string().starts_with("events.out.tfevents."));
  EXPECT_NE(file.find("brain.Event:2"), file.npos);
  EXPECT_NE(file.find("train/loss"), file.npos);
  EXPECT_NE(file.find("train/epoch"), file.npos);
  EXPECT_EQ(file.find("train/step"), file.npos);
}

}  // namespace
}  // namespace transom
