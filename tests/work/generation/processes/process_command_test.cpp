// SPDX-License-Identifier: Apache-2.0
#include "work/generation/processes/process_command.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace transom {
namespace {

ProcessCommand picture() {
  ProcessCommand command{.kind = ProcessCommand::Kind::kEmbed};
  command.attached = {.tensors = {{"pixel_values", Tensor::from(std::vector<float>{1, 2, 3}, {3, 1})},
                                  {"image_grid_thw", Tensor::from(std::vector<int64_t>{1, 1, 1}, {1, 3})}},
                      .places = {{1, 1}, {9, 2}}};
  return command;
}

// What is cut off, has something behind it, or a number of no meaning; never memory for what is not there.
void expect_refused(const std::string& bytes) {
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_THROW(command_of(bytes.substr(0, size)), Error) << size;
  EXPECT_THROW(command_of(bytes + "x"), Error);
  for (size_t at = 0; at < bytes.size(); at += 8) {
    std::string damaged = bytes;
    damaged.replace(at, 8, 8, '\x7f');
    try {
      command_of(damaged);  // a number of its own, or refused; never memory for what is not there
    } catch (const Error&) {
    }
  }
  std::string kind = bytes;
  kind.replace(0, 8, 8, '\xff');
  EXPECT_THROW(command_of(kind), Error);
}

TEST(ProcessCommand, IsReadBack) {
  ProcessCommand command{.kind = ProcessCommand::Kind::kRun};
  command.pass = {
      .ids = {5, 7}, .positions = {0, 1}, .slots = {-1, 16}, .block_tables = {0, 1, 2, 3}, .lengths = {1, 2}};
  command.pass.blocks = 2;
  command.pass.scored = 1;
  command.pass.embeddings = {0.5f, -1};
  command.pass.is_given = {0, 1};
  const ProcessCommand run = command_of(bytes_of(command));
  EXPECT_EQ(run.kind, ProcessCommand::Kind::kRun);
  EXPECT_EQ(run.pass.slots, command.pass.slots);
  EXPECT_EQ(run.pass.block_tables, command.pass.block_tables);
  EXPECT_EQ(run.pass.blocks, 2);
  EXPECT_EQ(run.pass.scored, 1);
  EXPECT_EQ(run.pass.embeddings, command.pass.embeddings);
  EXPECT_EQ(run.pass.is_given, command.pass.is_given);
  const ProcessCommand embed = command_of(bytes_of(picture()));
  EXPECT_EQ(embed.kind, ProcessCommand::Kind::kEmbed);
  ASSERT_EQ(embed.attached.places.size(), 2u);
  EXPECT_EQ(embed.attached.places[1].begin, 9);
  EXPECT_EQ(embed.attached.places[1].count, 2);
  EXPECT_EQ(embed.attached.tensors.items().size(), 2u);
  EXPECT_EQ(embed.attached.tensors.at("pixel_values").to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(embed.attached.tensors.at("image_grid_thw").shape(), (Shape{1, 3}));
  ProcessCommand copy{.kind = ProcessCommand::Kind::kCopy};
  copy.pairs = {{3, 4}, {5, 6}};
  EXPECT_EQ(command_of(bytes_of(copy)).pairs, copy.pairs);
  const ProcessCommand make = command_of(
      bytes_of({.kind = ProcessCommand::Kind::kMake, .blocks = 9, .block_size = 16, .cache_dtype = DType::kFloat16}));
  EXPECT_EQ(make.cache_dtype, DType::kFloat16);
  EXPECT_EQ(make.blocks, 9);
  EXPECT_EQ(make.block_size, 16);
}

TEST(ProcessCommand, OfASearchIsReadBack) {
  const ProcessCommand read = command_of(bytes_of({.kind = ProcessCommand::Kind::kRead, .numbers = {3, 7, -1}}));
  EXPECT_EQ(read.kind, ProcessCommand::Kind::kRead);
  EXPECT_EQ(read.numbers, (std::vector<int64_t>{3, 7, -1}));
  ProcessCommand answer{.kind = ProcessCommand::Kind::kAnswer};
  answer.output = {.sequences = {{1, 2}, {}, {3}}, .scores = {-0.25, 1e-300}};
  const ProcessCommand told = command_of(bytes_of(answer));
  EXPECT_EQ(told.output.sequences, answer.output.sequences);
  EXPECT_EQ(told.output.scores, answer.output.scores);
  const ProcessCommand failure = command_of(
      bytes_of({.kind = ProcessCommand::Kind::kFailure, .error = ErrorKind::kUnsupported, .text = "not today"}));
  EXPECT_EQ(failure.error, ErrorKind::kUnsupported);
  EXPECT_EQ(failure.text, "not today");
}

TEST(ProcessCommand, IsRefusedWhereItIsNone) {
  ProcessCommand answer{.kind = ProcessCommand::Kind::kAnswer};
  answer.output = {.sequences = {{1, 2}, {3}}, .scores = {0.5}};
  const ProcessCommand run{.kind = ProcessCommand::Kind::kRun};
  const ProcessCommand failure{.kind = ProcessCommand::Kind::kFailure, .text = "no"};
  const ProcessCommand copy{.kind = ProcessCommand::Kind::kCopy, .pairs = {{3, 4}, {5, 6}}};
  for (const ProcessCommand& command : {picture(), answer, run, failure, copy}) expect_refused(bytes_of(command));
}

}  // namespace
}  // namespace transom
