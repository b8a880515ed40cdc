// SPDX-License-Identifier: Apache-2.0
// The bytes of a model, as protobuf's rules have them, and where weights lie that are kept apart.
#include "models/onnx/proto/write_model.h"

#include <gtest/gtest.h>

#include "base/protobuf/wire_writer.h"
#include "support/temporary_folder.h"

namespace transom::onnx {
namespace {

TEST(WireWriter, WritesTagsVarintsAndLengths) {
  WireWriter inner, writer;
  inner.number(1, 300);
  writer.number(1, -1);
  writer.number32(2, 1.0f);
  writer.bytes(16, "ab");
  writer.message(3, inner);
  const std::string expected = std::string("\x08") + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" +
                               std::string("\x15\x00\x00\x80\x3f", 5) + "\x82\x01\x02" + "ab" + "\x1a\x03\x08\xac\x02";
  EXPECT_EQ(writer.text(), expected);
}

WrittenModel scaled(size_t count) {
  const auto values = std::make_shared<const std::vector<float>>(count, 2.0f);
  const auto small = std::make_shared<const std::vector<float>>(1, 3.0f);
  WrittenModel model{.opset = 23, .name = "scaled"};
  model.nodes = {{"Mul", "/Mul", {"x", "w"}, {"y"}, {}}};
  model.initializers = {
      {"s", {DType::kFloat32, {1}, std::as_bytes(std::span(*small)), small}},
      {"w", {DType::kFloat32, {static_cast<int64_t>(count)}, std::as_bytes(std::span(*values)), values}}};
  model.inputs = {{"x", DType::kFloat32, {std::string("batch_size"), static_cast<int64_t>(count)}}};
  model.outputs = {{"y", DType::kFloat32, {std::string("batch_size"), static_cast<int64_t>(count)}}};
  return model;
}

TEST(WriteModel, KeepsSmallModelsInOneFile) {
  const test::TemporaryFolder folder;
  write_model(folder / "model.onnx", scaled(512));
  EXPECT_FALSE(fs::exists(folder / "model.onnx_data"));
  const std::string text = read_file(folder / "model.onnx");
  EXPECT_GT(text.size(), 2048u);
  EXPECT_NE(text.find("batch_size"), text.npos);
}

TEST(WriteModel, PutsLargeWeightsBesideTheModelAtPages) {
  const test::TemporaryFolder folder;
  write_model(folder / "model.onnx", scaled(512), 0);
  const std::string text = read_file(folder / "model.onnx");
  EXPECT_NE(text.find("model.onnx_data"), text.npos);
  EXPECT_NE(text.find("location"), text.npos);
  EXPECT_LT(text.size(), 1024u);
  EXPECT_EQ(read_file(folder / "model.onnx_data").size(), 2048u);  // the small one stays in the model
}

}  // namespace
}  // namespace transom::onnx
