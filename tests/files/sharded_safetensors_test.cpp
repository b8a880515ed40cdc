// SPDX-License-Identifier: Apache-2.0
// Tensors in boxes over files: written, read by places, put together, and what is refused.
#include "files/checkpoint/sharded_safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/error.h"
#include "files/checkpoint/checkpoint.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

TensorBox box(const std::string& name, std::vector<int64_t> offsets, std::vector<int64_t> shape,
              const std::vector<int32_t>& values) {
  const auto held = std::make_shared<const std::vector<int32_t>>(values);
  return {name, std::move(offsets), TensorView{DType::kInt32, std::move(shape), std::as_bytes(std::span(*held)), held}};
}

std::vector<int32_t> numbers(std::span<const std::byte> bytes) {
  std::vector<int32_t> values(bytes.size() / sizeof(int32_t));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string refusal(const fs::path& folder) {
  try {
    ShardedTensorFiles::open(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

class ShardedSafetensors : public testing::Test {
 protected:
  // [[0, 1, 2], [3, 4, 5], [6, 7, 8]]: process 0 has the first row and the last one, process 1 the middle one, in two.
  void write() const {
    write_shards(
        folder_.path(), "model", 0,
        {box("w", {0, 0}, {1, 3}, {0, 1, 2}), box("w", {2, 0}, {1, 3}, {6, 7, 8}), box("scalar", {}, {}, {42})});
    write_shards(folder_.path(), "model", 1, {box("w", {1, 0}, {1, 1}, {3}), box("w", {1, 1}, {1, 2}, {4, 5})});
  }
  test::TemporaryFolder folder_;
};

TEST_F(ShardedSafetensors, ArePutTogether) {
  write();
  EXPECT_TRUE(fs::exists(folder_ / "shard-00001-model-00002-of-00002.safetensors"));
  EXPECT_TRUE(ShardedTensorFiles::exists(folder_.path()));
  EXPECT_FALSE(ShardedTensorFiles::exists(folder_.path(), "optimizer"));
  const ShardedTensorFiles files = ShardedTensorFiles::open(folder_.path());
  EXPECT_EQ(files.tensors().at("w").shape, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(numbers(files.whole("w").bytes), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(numbers(files.whole("scalar").bytes), std::vector<int32_t>{42});
  EXPECT_EQ(numbers(files.read("scalar", {})), std::vector<int32_t>{42});
  const Checkpoint checkpoint = Checkpoint::open(folder_.path());
  EXPECT_EQ(numbers(checkpoint.find("w")->bytes), numbers(files.whole("w").bytes));
}

TEST_F(ShardedSafetensors, GiveAnyPlaces) {
  write();
  const ShardedTensorFiles files = ShardedTensorFiles::open(folder_.path());
  for (int rows = 0; rows < 8; ++rows)
    for (int columns = 0; columns < 8; ++columns) {
      std::vector<std::vector<int64_t>> places(2);
      std::vector<int32_t> expected;
      for (int64_t i = 0; i < 3; ++i) {
        if (rows >> i & 1) places[0].push_back(i);
        if (columns >> i & 1) places[1].push_back(i);
      }
      for (const int64_t row : places[0])
        for (const int64_t column : places[1]) expected.push_back(static_cast<int32_t>(3 * row + column));
      EXPECT_EQ(numbers(files.read("w", places)), expected) << rows << " " << columns;
    }
}

TEST_F(ShardedSafetensors, RefuseGapsAndOverlaps) {
  write();
  fs::remove(folder_ / "shard-00001-model-00002-of-00002.safetensors");
  // Its last row is gone: what is left could be a whole of two rows.
  EXPECT_EQ(refusal(folder_.path()), "accepted");
  fs::remove(folder_ / "shard-00002-model-00001-of-00002.safetensors");
  EXPECT_NE(refusal(folder_.path()).find("its boxes have 5 of the 6 elements of [2, 3]"), std::string::npos)
      << refusal(folder_.path());
  write();
  write_shards(folder_.path(), "model", 2, {box("w", {2, 2}, {1, 1}, {9})});
  EXPECT_NE(refusal(folder_.path()).find("overlaps"), std::string::npos);
}

TEST_F(ShardedSafetensors, RefuseWhatIsNotMeant) {
  const auto with = [&](const std::string& info) {
    const TensorBox one = box("w", {0}, {2}, {1, 2});
    write_safetensors(folder_ / "shard-00001-model-00001-of-00001.safetensors", {{one.name, one.view}},
                      {{"DCP_SHARDING_INFO", info}});
    return refusal(folder_.path());
  };
  EXPECT_EQ(with(R"({"w": {"saved_offsets": [0]}})"), "accepted");
  for (const char* info : {"[]", "nothing", R"({"w": 3})", R"({"w": {"saved_offsets": [-1]}})", R"({"w": {}})",
                           R"({"w": {"saved_offsets": [0, 0]}})", R"({"w": {"saved_offsets": ["0"]}})",
                           R"({"w": {"saved_offsets": [9223372036854775807]}})",
                           R"({"w": {"saved_offsets": [4000000000000000000]}})", R"({"w": {"saved_offsets": [1]}})"})
    EXPECT_NE(with(info), "accepted") << info;
}

// Damaged files are refused, or read within their bounds.
TEST_F(ShardedSafetensors, SurviveDamage) {
  write();
  const fs::path path = folder_ / "shard-00001-model-00001-of-00002.safetensors";
  const std::string good = read_file(path);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    write_file(path, bad);
    try {
      const ShardedTensorFiles files = ShardedTensorFiles::open(folder_.path());
      for (const auto& [name, whole] : files.tensors()) numbers(files.whole(name).bytes);
    } catch (const Error&) {
    }
    write_file(path, good.substr(0, i));
    EXPECT_NE(refusal(folder_.path()), "accepted") << i;
  }
}

}  // namespace
}  // namespace transom
