// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/run/shared_constants.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "transom/error.h"

namespace transom::onnx {
namespace {

constexpr ElementType kSharedF32 = ElementType::kFloat32, kI32 = ElementType::kInt32;

// A tensor as it lies in a file, `shift` bytes behind an aligned place.
TensorData stored(const std::vector<float>& values, std::vector<int64_t> shape, ElementType type = kSharedF32,
                  size_t shift = 0) {
  const size_t size = values.size() * sizeof(float);
  const auto held = std::make_shared<std::vector<std::byte>>(size + shift);
  std::memcpy(held->data() + shift, values.data(), size);
  return {.name = "w",
          .type = type,
          .shape = std::move(shape),
          .bytes = std::span<const std::byte>(*held).subspan(shift),
          .strings = {},
          .owner = held};
}

std::vector<float> ramp(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

bool one_value(const Value& a, const Value& b) { return a.tensor.node() == b.tensor.node(); }

TEST(SharedConstants, EqualOnesAreOneValue) {
  SharedConstants shared;
  const std::vector<float> values = ramp(4096);
  const Value first = shared.value_of(stored(values, {64, 64}), "a.onnx");
  EXPECT_TRUE(one_value(first, shared.value_of(stored(values, {64, 64}), "b.onnx")));
  // Protobuf aligns nothing.
  EXPECT_TRUE(one_value(first, shared.value_of(stored(values, {64, 64}, kSharedF32, 1), "c.onnx")));
  EXPECT_EQ(first.tensor.to_vector<float>(), values);
}

TEST(SharedConstants, WhatIsNotAlignedIsSharedToo) {
  SharedConstants shared;
  const std::vector<float> values = ramp(4096);
  const Value first = shared.value_of(stored(values, {4096}, kSharedF32, 3), "a.onnx");
  EXPECT_TRUE(one_value(first, shared.value_of(stored(values, {4096}, kSharedF32, 1), "b.onnx")));
  EXPECT_EQ(first.tensor.to_vector<float>(), values);
}

// Two askers whose tensors differ where no digest looks, in shape alone, or in type alone.
TEST(SharedConstants, UnlikeOnesStayApart) {
  SharedConstants shared;
  const std::vector<float> values = ramp(4096);
  std::vector<float> other = values;
  other[1000] = -1;
  const Value first = shared.value_of(stored(values, {64, 64}), "a.onnx");
  const Value second = shared.value_of(stored(other, {64, 64}), "b.onnx");
  EXPECT_EQ(second.tensor.to_vector<float>(), other);
  EXPECT_EQ(first.tensor.to_vector<float>(), values);
  EXPECT_EQ(shared.value_of(stored(values, {4096}), "b.onnx").tensor.shape(), (Shape{4096}));
  EXPECT_EQ(shared.value_of(stored(values, {64, 64}, kI32), "b.onnx").tensor.dtype(), DType::kInt32);
}

// More of one digest than are compared: each keeps its own elements.
TEST(SharedConstants, ManyOfOneDigest) {
  SharedConstants shared;
  std::vector<float> values = ramp(4096);
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < 20; ++i) {
      values[1000] = static_cast<float>(i);
      EXPECT_EQ(shared.value_of(stored(values, {4096}), "a.onnx").tensor.to_vector<float>()[1000], values[1000]);
    }
}

TEST(SharedConstants, ThreadsAskAtOnce) {
  SharedConstants shared;
  std::vector<Value> results(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i)
    threads.emplace_back([&, i] {
      std::vector<float> values = ramp(4096);
      values[7] = static_cast<float>(i % 2);
      results[i] = shared.value_of(stored(values, {4096}, kSharedF32, i), "a.onnx");
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(one_value(results[i], results[i % 2]));
    EXPECT_EQ(results[i].tensor.to_vector<float>()[7], static_cast<float>(i % 2));
  }
}

TEST(SharedConstants, StringsAreRefusedAsEver) {
  SharedConstants shared;
  TensorData strings{
      .name = "s", .type = ElementType::kString, .shape = {1}, .bytes = {}, .strings = {"a"}, .owner = {}};
  EXPECT_THROW(shared.value_of(strings, "a.onnx"), Error);
}

}  // namespace
}  // namespace transom::onnx
