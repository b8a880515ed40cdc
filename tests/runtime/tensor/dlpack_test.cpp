// SPDX-License-Identifier: Apache-2.0
#include "transom/dlpack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "runtime/device/device.h"
#include "runtime/tensor/dlpack_structs.h"
#include "support/message.h"
#include "transom/compile.h"
#include "transom/error.h"
#include "transom/ops.h"

namespace transom {
namespace {

bool in_place() { return default_device()->has(TRANSOM_DEVICE_HOST_MEMORY); }

// A producer that counts the calls of its deleter.
template <typename Managed>
struct Producer {
  explicit Producer(std::vector<float> contents, std::vector<int64_t> extents = {}) : values(std::move(contents)) {
    shape = extents.empty() ? std::vector<int64_t>{static_cast<int64_t>(values.size())} : std::move(extents);
    managed.dl_tensor = {
        values.data(), {kDLCPU, 0}, static_cast<int32_t>(shape.size()), {kDLFloat, 32, 1}, shape.data(), nullptr, 0};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->deleted; };
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) managed.version = {1, 0};
  }
  Producer(const Producer&) = delete;

  std::vector<float> values;
  std::vector<int64_t> shape, strides;
  Managed managed{};
  int deleted = 0;
};
using Versioned = Producer<DLManagedTensorVersioned>;
using Unversioned = Producer<DLManagedTensor>;

TEST(DLPack, TakesBothStructsInPlace) {
  Versioned one({1, 2, 3, 4, 5, 6}, {2, 3});
  Unversioned other({7, 8});
  {
    const Tensor x = from_dlpack(&one.managed), y = from_dlpack(&other.managed);
    EXPECT_EQ(x.type(), (Type{DType::kFloat32, {2, 3}}));
    EXPECT_EQ(x.to_vector<float>(), one.values);
    EXPECT_EQ(y.to_vector<float>(), other.values);
    EXPECT_EQ(one.deleted, in_place() ? 0 : 1);
    one.values[0] = 9;  // seen, since nothing was copied; else forbidden
    if (in_place()) {
      EXPECT_EQ(x.to_vector<float>()[0], 9.0F);
    }
  }
  EXPECT_EQ(one.deleted, 1);
  EXPECT_EQ(other.deleted, 1);
}

// Programs take the memory of inputs that nobody holds any more: never another library's.
TEST(DLPack, MemoryOfOthersIsNeverWrittenTo) {
  for (const Mode each : {Mode::kLazy, Mode::kEager, Mode::kCompile, Mode::kGraph}) {
    set_mode(each);
    Versioned producer({1, 2, 3, 4});
    producer.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    const std::vector<float> before = producer.values;
    const CompiledFunction twice = compile([](const std::vector<Tensor>& x) { return std::vector<Tensor>{x[0] * 2.0}; },
                                           {.name = "twice", .capture = each == Mode::kGraph, .donated = {0}});
    Tensor x = from_dlpack(&producer.managed);
    x = x + 1.0;
    x = x * 3.0;
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{6, 9, 12, 15}));
    x = {};
    EXPECT_EQ(producer.values, before);
    EXPECT_EQ(producer.deleted, 1) << "when all that depends on it is computed";

    Versioned argument({5, 6});
    EXPECT_EQ(twice({from_dlpack(&argument.managed)})[0].to_vector<float>(), (std::vector<float>{10, 12}));
    EXPECT_EQ(argument.values, (std::vector<float>{5, 6}));
    EXPECT_EQ(argument.deleted, 1);
  }
  set_mode(Mode::kLazy);
}

// What is computed from memory of one address and later from other contents there is computed anew: nothing is kept.
TEST(DLPack, TheSameAddressMayHoldAnotherTensor) {
  const Tensor weight = Tensor::from(std::vector<float>{2, 0, 0, 2}, {2, 2});
  float memory[2] = {1, 2};
  for (int i = 0; i < 4; ++i) {
    Versioned producer({0}, {1, 2});
    producer.managed.dl_tensor.data = memory;
    EXPECT_EQ(matmul(from_dlpack(&producer.managed), weight).to_vector<float>(),
              (std::vector<float>{2 * memory[0], 2 * memory[1]}));
    memory[0] += 10, memory[1] -= 5;
  }
}

TEST(DLPack, StridesAndOffsetsAreFollowed) {
  Versioned producer({0, 1, 2, 3, 4, 5}, {3, 2});
  producer.strides = {1, 3};  // the transpose of [2, 3]
  producer.managed.dl_tensor.strides = producer.strides.data();
  EXPECT_EQ(from_dlpack(&producer.managed).to_vector<float>(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(producer.deleted, 1);

  Versioned broadcast({7, 8}, {3, 1});
  broadcast.strides = {0, 5};
  broadcast.managed.dl_tensor.strides = broadcast.strides.data();
  broadcast.managed.dl_tensor.byte_offset = 4;
  EXPECT_EQ(from_dlpack(&broadcast.managed).to_vector<float>(), (std::vector<float>{8, 8, 8}));

  Versioned backwards({1, 2, 3});
  backwards.strides = {-1};
  backwards.managed.dl_tensor.strides = backwards.strides.data();
  backwards.managed.dl_tensor.byte_offset = 8;
  EXPECT_EQ(from_dlpack(&backwards.managed).to_vector<float>(), (std::vector<float>{3, 2, 1}));

  Versioned one({5}, {1, 1});  // strides of single elements say nothing
  one.strides = {77, -3};
  one.managed.dl_tensor.strides = one.strides.data();
  EXPECT_EQ(from_dlpack(&one.managed).item<float>(), 5.0F);

  std::vector<char> bytes(9);
  const float value = 3;
  std::memcpy(bytes.data() + 1, &value, 4);
  Versioned crooked({0});
  crooked.managed.dl_tensor.data = bytes.data();
  crooked.managed.dl_tensor.byte_offset = 1;
  EXPECT_EQ(from_dlpack(&crooked.managed).item<float>(), 3.0F);
}

TEST(DLPack, ScalarsAndEmptyTensors) {
  Unversioned scalar({4});
  scalar.managed.dl_tensor.ndim = 0;
  scalar.managed.dl_tensor.shape = nullptr;
  EXPECT_EQ(from_dlpack(&scalar.managed).type(), (Type{DType::kFloat32, {}}));
  Unversioned empty({}, {2, 0});
  empty.managed.dl_tensor.data = nullptr;
  EXPECT_EQ(from_dlpack(&empty.managed).shape(), (Shape{2, 0}));
  EXPECT_EQ(empty.deleted, 1);
  Unversioned forever({4});
  forever.managed.deleter = nullptr;
  EXPECT_EQ(from_dlpack(&forever.managed).item<float>(), 4.0F);

  DLManagedTensorVersioned* none = to_dlpack(zeros({3, 0}));
  EXPECT_EQ(none->dl_tensor.ndim, 2);
  none->deleter(none);
}

std::pair<ErrorKind, std::string> refused(Versioned& producer) {
  try {
    from_dlpack(&producer.managed);
  } catch (const Error& error) {
    EXPECT_EQ(producer.deleted, 1) << "what is refused is given back: " << error.what();
    return {error.kind(), error.what()};
  }
  ADD_FAILURE() << "was taken";
  return {};
}

TEST(DLPack, WhatCannotBeTakenIsRefusedAndGivenBack) {
  const auto with = [](const std::function<void(Versioned&)>& change) {
    Versioned producer({1, 2});
    change(producer);
    return refused(producer);
  };
  using P = Versioned;
  for (const auto& change : std::vector<std::function<void(P&)>>{
           [](P& p) { p.managed.dl_tensor.device.device_type = kDLCUDA; },
           [](P& p) {
             p.managed.dl_tensor.dtype = {kDLComplex, 64, 1};
           },
           [](P& p) {
             p.managed.dl_tensor.dtype = {kDLInt, 16, 1};
           },
           [](P& p) {
             p.managed.dl_tensor.dtype = {kDLFloat, 32, 4};
           },
           [](P& p) {
             p.managed.version = {2, 0};
           },
       })
    EXPECT_EQ(with(change).first, ErrorKind::kUnsupported);
  for (const auto& change : std::vector<std::function<void(P&)>>{
           [](P& p) { p.managed.dl_tensor.ndim = -1; },
           [](P& p) { p.managed.dl_tensor.ndim = 1000; },
           [](P& p) { p.managed.dl_tensor.shape = nullptr; },
           [](P& p) { p.managed.dl_tensor.data = nullptr; },
           [](P& p) { p.shape[0] = -2; },
           [](P& p) { p.shape[0] = INT64_MAX; },
       })
    EXPECT_EQ(with(change).first, ErrorKind::kInput);
  EXPECT_NE(with([](P& p) { p.managed.version = {2, 3}; }).second.find("2.3"), std::string::npos);
  EXPECT_THROW(from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr)), Error);
  EXPECT_THROW(from_dlpack(static_cast<DLManagedTensor*>(nullptr)), Error);
  EXPECT_THROW(to_dlpack(Tensor()), Error);
}

// ---- out

TEST(DLPack, GivesTensorsOutWithoutACopy) {
  Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}) * 2.0;
  DLManagedTensorVersioned* out = to_dlpack(x);
  EXPECT_EQ(out->version.major, 1u);
  EXPECT_EQ(out->flags, in_place() ? DLPACK_FLAG_BITMASK_READ_ONLY : DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_EQ(out->dl_tensor.device.device_type, kDLCPU);
  EXPECT_EQ(std::vector<int64_t>(out->dl_tensor.shape, out->dl_tensor.shape + 2), (Shape{2, 3}));
  EXPECT_EQ(std::vector<int64_t>(out->dl_tensor.strides, out->dl_tensor.strides + 2), (Shape{3, 1}));
  DLManagedTensorVersioned* again = to_dlpack(x);
  if (in_place()) {
    EXPECT_EQ(out->dl_tensor.data, again->dl_tensor.data);
  }
  again->deleter(again);
  // The tensor is gone, and programs that could take its memory run.
  x = x + 1.0;
  x = x + 1.0;
  eval({&x, 1});
  x = {};
  for (int i = 0; i < 8; ++i) (Tensor::from(std::vector<float>(6, 9.0F), {2, 3}) * 3.0).to_bytes();
  const auto* values = static_cast<const float*>(out->dl_tensor.data);
  EXPECT_EQ(std::vector<float>(values, values + 6), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  std::thread([out] { out->deleter(out); }).join();
}

// A captured program has fixed addresses for its results; what is given out must not change with its next replay.
TEST(DLPack, ReplaysLeaveWhatWasGivenOut) {
  const CompiledFunction twice =
      compile([](const std::vector<Tensor>& x) { return std::vector<Tensor>{x[0] * 2.0}; }, {.capture = true});
  const auto call = [&](float x) { return to_dlpack(twice({Tensor::from(std::vector<float>{x}, {1})})[0]); };
  std::vector<DLManagedTensorVersioned*> all;
  for (int i = 0; i < 5; ++i) all.push_back(call(static_cast<float>(i)));
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(*static_cast<float*>(all[i]->dl_tensor.data), 2.0F * static_cast<float>(i));
    all[i]->deleter(all[i]);
  }
}

TEST(DLPack, CopiesMayBeWrittenTo) {
  const Tensor x = Tensor::from(std::vector<int64_t>{1, 2}, {2});
  DLManagedTensorVersioned* copy = to_dlpack(x, true);
  DLManagedTensor* older = to_dlpack_unversioned(x);
  EXPECT_EQ(copy->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  static_cast<int64_t*>(copy->dl_tensor.data)[0] = 5;
  static_cast<int64_t*>(older->dl_tensor.data)[1] = 6;
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
  copy->deleter(copy);
  older->deleter(older);
}

TEST(DLPack, EveryTypeGoesOutAndComesBack) {
  for (const DType dtype : {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt32, DType::kInt64, DType::kUInt32,
                            DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    std::vector<std::byte> bytes(4 * size_of(dtype));
    for (size_t i = 0; i < bytes.size(); i += size_of(dtype)) bytes[i] = std::byte(i % 2);
    const Tensor x = Tensor::from_bytes(bytes, {dtype, {2, 2}});
    const Tensor versioned = from_dlpack(to_dlpack(x)), copied = from_dlpack(to_dlpack(x, true)),
                 older = from_dlpack(to_dlpack_unversioned(x));
    for (const Tensor& back : {versioned, copied, older}) {
      EXPECT_EQ(back.type(), x.type());
      EXPECT_EQ(back.to_bytes(), bytes) << name_of(dtype);
    }
  }
}

// Two owners of one memory: it lives until the last lets go, in whatever order.
TEST(DLPack, OwnersLetGoInAnyOrder) {
  Versioned producer({1, 2, 3});
  Tensor x = from_dlpack(&producer.managed);
  DLManagedTensorVersioned* out = to_dlpack(x);
  Tensor back = from_dlpack(out);
  if (!in_place()) GTEST_SKIP() << "this device has memory of its own";
  EXPECT_EQ(out->dl_tensor.data, producer.values.data());
  x = {};
  EXPECT_EQ(producer.deleted, 0);
  EXPECT_EQ(back.to_vector<float>(), producer.values);
  back = {};
  EXPECT_EQ(producer.deleted, 1);
}

TEST(DLPack, ManyThreadsShareOneTensor) {
  Versioned producer(std::vector<float>(1000, 1.0F));
  {
    const Tensor x = from_dlpack(&producer.managed);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&x, i] {
        for (int k = 0; k < 20; ++k)
          EXPECT_EQ(sum(x * static_cast<double>(i)).item<float>(), 1000.0F * static_cast<float>(i));
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(producer.deleted, in_place() ? 0 : 1);
  }
  EXPECT_EQ(producer.deleted, 1);
}

}  // namespace
}  // namespace transom
