// SPDX-License-Identifier: Apache-2.0
#include "generation/engine/shared_commands.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace transom {
namespace {

EngineCommand picture() {
  EngineCommand command{.kind = EngineCommand::Kind::kEmbed};
  command.attached = {.tensors = {{"pixel_values", Tensor::from(std::vector<float>{1, 2, 3}, {3, 1})},
                                  {"image_grid_thw", Tensor::from(std::vector<int64_t>{1, 1, 1}, {1, 3})}},
                      .places = {{1, 1}, {9, 2}}};
  return command;
}

TEST(EngineCommand, IsReadBack) {
  EngineCommand command{.kind = EngineCommand::Kind::kRun};
  command.pass = {
      .ids = {5, 7}, .positions = {0, 1}, .slots = {-1, 16}, .block_tables = {0, 1, 2, 3}, .lengths = {1, 2}};
  command.pass.blocks = 2;
  command.pass.scored = 1;
  command.pass.embeddings = {0.5f, -1};
  command.pass.is_given = {0, 1};
  const EngineCommand run = command_of(bytes_of(command));
  EXPECT_EQ(run.kind, EngineCommand::Kind::kRun);
  EXPECT_EQ(run.pass.slots, command.pass.slots);
  EXPECT_EQ(run.pass.block_tables, command.pass.block_tables);
  EXPECT_EQ(run.pass.blocks, 2);
  EXPECT_EQ(run.pass.scored, 1);
  EXPECT_EQ(run.pass.embeddings, command.pass.embeddings);
  EXPECT_EQ(run.pass.is_given, command.pass.is_given);
  const EngineCommand embed = command_of(bytes_of(picture()));
  EXPECT_EQ(embed.kind, EngineCommand::Kind::kEmbed);
  ASSERT_EQ(embed.attached.places.size(), 2u);
  EXPECT_EQ(embed.attached.places[1].begin, 9);
  EXPECT_EQ(embed.attached.places[1].count, 2);
  EXPECT_EQ(embed.attached.tensors.items().size(), 2u);
  EXPECT_EQ(embed.attached.tensors.at("pixel_values").to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(embed.attached.tensors.at("image_grid_thw").shape(), (Shape{1, 3}));
  EngineCommand copy{.kind = EngineCommand::Kind::kCopy};
  copy.pairs = {{3, 4}, {5, 6}};
  EXPECT_EQ(command_of(bytes_of(copy)).pairs, copy.pairs);
  const EngineCommand make = command_of(
      bytes_of({.kind = EngineCommand::Kind::kMake, .blocks = 9, .block_size = 16, .cache_dtype = DType::kFloat16}));
  EXPECT_EQ(make.cache_dtype, DType::kFloat16);
  EXPECT_EQ(make.blocks, 9);
  EXPECT_EQ(make.block_size, 16);
}

TEST(EngineCommand, IsRefusedWhereItIsNone) {
  const std::string bytes = bytes_of(picture());
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

}  // namespace
}  // namespace transom
