// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/proto/read_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "models/onnx/model_writer.h"
#include "transom/error.h"

namespace transom::onnx {
namespace {

using test::GraphParts;
using test::Message;

std::string small_model() {
  return test::model({.nodes = {test::node("Mul", {"x", "w"}, {"y"})},
                      .inputs = {test::value("x", ElementType::kFloat32, {-1, 2})},
                      .outputs = {test::value("y", ElementType::kFloat32, {-1, 2})},
                      .initializers = {test::tensor<float>("w", ElementType::kFloat32, {2}, {2, 3})}});
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of_tensor(const Message& tensor) {
  return error_of([&] { parse_model(test::model({.initializers = {tensor}}), "m.onnx", nullptr); });
}

TEST(ReadModel, WhatAFileSays) {
  const std::string bytes = small_model();
  const Model model = parse_model(bytes, "m.onnx", nullptr);
  EXPECT_EQ(model.ir_version, 8);
  EXPECT_EQ(model.opsets.at(""), 18);
  ASSERT_EQ(model.graph.nodes.size(), 1u);
  EXPECT_EQ(model.graph.nodes[0].op_type, "Mul");
  EXPECT_EQ(model.graph.nodes[0].inputs, (std::vector<std::string>{"x", "w"}));
  ASSERT_TRUE(model.graph.inputs[0].shape);
  EXPECT_EQ((*model.graph.inputs[0].shape)[0].value, -1);
  EXPECT_EQ((*model.graph.inputs[0].shape)[0].symbol, "n");
  EXPECT_EQ((*model.graph.inputs[0].shape)[1].value, 2);
  const TensorData& w = *model.graph.initializers[0];
  EXPECT_EQ(w.shape, (std::vector<int64_t>{2}));
  EXPECT_GE(reinterpret_cast<const char*>(w.bytes.data()), bytes.data());  // no copy
}

TEST(ReadModel, TypedFieldsBecomeBytes) {
  // float_data packed, and int32_data number by number with the bits of a half.
  const float values[] = {1.5f, -2};
  const std::string packed(reinterpret_cast<const char*>(values), sizeof(values));
  const Message floats = Message().number(1, 2).number(2, 1).text(4, packed).text(8, "f");
  const Message halves = Message().number(1, 1).number(2, 10).number(5, 0x3c00).text(8, "h");
  const Model model = parse_model(test::model({.initializers = {floats, halves}}), "m.onnx", nullptr);
  float first = 0;
  std::memcpy(&first, model.graph.initializers[0]->bytes.data(), 4);
  EXPECT_EQ(first, 1.5f);
  uint16_t half = 0;
  std::memcpy(&half, model.graph.initializers[1]->bytes.data(), 2);
  EXPECT_EQ(half, 0x3c00);
}

TEST(ReadModel, TensorsThatLieAboutTheirSize) {
  const auto kind = static_cast<uint64_t>(ElementType::kFloat32);
  EXPECT_NE(error_of_tensor(Message().number(1, 3).number(2, kind).text(8, "w").text(9, "12345678")).find("needs 12"),
            std::string::npos);
  EXPECT_NE(error_of_tensor(Message().number(1, uint64_t{1} << 62).number(2, kind).text(8, "w")).find("impossible"),
            std::string::npos);
  EXPECT_NE(error_of_tensor(Message().number(1, static_cast<uint64_t>(-1)).number(2, kind)).find("impossible"),
            std::string::npos);
  EXPECT_NE(error_of_tensor(Message().number(1, 1).number(2, 99)).find("unknown"), std::string::npos);
}

TEST(ReadModel, GraphsThatNestTooDeep) {
  Message inner = test::graph_of({});
  for (int depth = 0; depth < 20; ++depth)
    inner = test::graph_of({.nodes = {test::node("If", {"c"}, {"y"}, {test::graph("then_branch", inner)})}});
  const std::string bytes = Message().message(7, inner).bytes();
  EXPECT_NE(error_of([&] { parse_model(bytes, "m.onnx", nullptr); }).find("deep"), std::string::npos);
}

TEST(ReadModel, CutAndFlippedFilesEndInOneLine) {
  const std::string bytes = small_model();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string error = error_of([&] { parse_model(bytes.substr(0, size), "m.onnx", nullptr); });
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const std::string error = error_of([&] { parse_model(flipped, "m.onnx", nullptr); });
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

class ExternalData : public ::testing::Test {
 protected:
  ExternalData() : folder_(fs::temp_directory_path() / ("onnx_external_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "inner");
    write_file(folder_ / "inner" / "data", std::string("....") + std::string("\0\0\x80\x3f", 4));
  }
  ~ExternalData() override { fs::remove_all(folder_); }

  std::string error_or_value(const std::string& location, const std::string& offset, const std::string& length) {
    const auto entry = [](const std::string& key, const std::string& value) {
      return Message().text(1, key).text(2, value);
    };
    Message tensor;
    tensor.number(1, 1).number(2, 1).text(8, "w").number(14, 1).message(13, entry("location", location));
    if (!offset.empty()) tensor.message(13, entry("offset", offset));
    if (!length.empty()) tensor.message(13, entry("length", length));
    write_file(folder_ / "m.onnx", test::model({.initializers = {tensor}}));
    return error_of([&] {
      const Model model = read_model(folder_ / "m.onnx");
      float value = 0;
      std::memcpy(&value, model.graph.initializers[0]->bytes.data(), 4);
      throw Error(ErrorKind::kInput, std::to_string(static_cast<int>(value)));
    });
  }
  const fs::path folder_;
};

TEST_F(ExternalData, LiesInsideTheDirectory) {
  EXPECT_EQ(error_or_value("inner/data", "4", "4"), "1");
  EXPECT_EQ(error_or_value("inner/data", "4", ""), "1");
  for (const char* location : {"../data", "/etc/passwd", "inner/../../data", ""})
    EXPECT_NE(error_or_value(location, "0", "4").find("inside the directory"), std::string::npos) << location;
  EXPECT_NE(error_or_value("inner/data", "6", "4").find("8 bytes"), std::string::npos);
  EXPECT_NE(error_or_value("inner/data", "9", "").find("begins at 9"), std::string::npos);
  EXPECT_NE(error_or_value("inner/data", "-4", "4").find("whole number"), std::string::npos);
  EXPECT_NE(error_or_value("inner/data", "4", "2").find("needs 4"), std::string::npos);
  EXPECT_NE(error_or_value("none", "0", "4").find("there is no file"), std::string::npos);
  fs::create_symlink(folder_ / "inner" / "data", folder_ / "link");
  EXPECT_NE(error_or_value("link", "4", "4").find("is a link"), std::string::npos);
}

}  // namespace
}  // namespace transom::onnx
