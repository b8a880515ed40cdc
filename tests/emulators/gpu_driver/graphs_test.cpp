// SPDX-License-Identifier: Apache-2.0
// The rules that the look-alike of cuDNN's graphs keeps a caller to. What it computes is tried by
// backends/gpu/attention_library_test.
#include <cstdint>
#include <string>
#include <vector>

#include "emulated_driver.h"

namespace {

enum Status { kDone = 0, kNotStarted = 1001, kBadValue = 2000, kBadType = 2010 };
enum Sort {
  kOfPointwise = 0,
  kChoice = 3,
  kHeuristic = 4,
  kPointwiseOperation = 13,
  kGraph = 15,
  kPack = 16,
  kTensor = 17
};
enum Sums { kOfMatmul = 18, kMatmulOperation = 19 };
enum Type { kElement = 1, kBool = 2, kNumber = 3, kAddress = 6, kMode = 8, kPointwiseMode = 14, kDescriptor = 15 };

class EmulatedGraphs : public EmulatedDriver {
 protected:
  void* made(int sort) {
    void* one = nullptr;
    EXPECT_EQ(call("cudnnBackendCreateDescriptor", sort, &one), kDone);
    return one;
  }
  template <typename T>
  int set(void* one, int attribute, int type, const std::vector<T>& values) {
    return call("cudnnBackendSetAttribute", one, attribute, type, static_cast<int64_t>(values.size()),
                static_cast<const void*>(values.data()));
  }
  int finalise(void* one) { return call("cudnnBackendFinalize", one); }
  std::string words() {
    char text[256] = "";
    reinterpret_cast<void (*)(char*, size_t)>(dlsym(library_, "cudnnGetLastErrorString"))(text, sizeof text);
    return text;
  }
  // Not finalised.
  void* tensor(int64_t id, const std::vector<int64_t>& extents, bool inside = false, int element = 0) {
    void* const one = made(kTensor);
    std::vector<int64_t> strides(extents.size(), 1);
    for (size_t i = extents.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * extents[i];
    EXPECT_EQ(set(one, 901, kElement, std::vector<int>{element}), kDone);
    EXPECT_EQ(set(one, 902, kNumber, extents), kDone);
    EXPECT_EQ(set(one, 903, kNumber, strides), kDone);
    EXPECT_EQ(set(one, 906, kNumber, std::vector<int64_t>{id}), kDone);
    EXPECT_EQ(set(one, 900, kNumber, std::vector<int64_t>{16}), kDone);
    EXPECT_EQ(set(one, 907, kBool, std::vector<char>{inside}), kDone);
    return one;
  }
  void* final_tensor(int64_t id, const std::vector<int64_t>& extents, bool inside = false, int element = 0) {
    void* const one = tensor(id, extents, inside, element);
    EXPECT_EQ(finalise(one), kDone);
    return one;
  }
  // Not finalised; y = exp(x).
  void* exponential(void* x, void* y) {
    void *const kind = made(kOfPointwise), *const operation = made(kPointwiseOperation);
    EXPECT_EQ(set(kind, 0, kPointwiseMode, std::vector<int>{13}), kDone);
    EXPECT_EQ(set(kind, 1, kElement, std::vector<int>{0}), kDone);
    EXPECT_EQ(finalise(kind), kDone);
    EXPECT_EQ(set(operation, 750, kDescriptor, std::vector<void*>{kind}), kDone);
    EXPECT_EQ(set(operation, 751, kDescriptor, std::vector<void*>{x}), kDone);
    EXPECT_EQ(set(operation, 753, kDescriptor, std::vector<void*>{y}), kDone);
    return operation;
  }
};

TEST_F(EmulatedGraphs, ADescriptorIsFinalisedOnceAndChangedNoMore) {
  void* const one = tensor(1, {1, 1, 2, 4});
  EXPECT_EQ(finalise(one), kDone);
  EXPECT_EQ(finalise(one), kBadValue);
  EXPECT_EQ(set(one, 906, kNumber, std::vector<int64_t>{2}), kBadValue);
  EXPECT_EQ(call("cudnnBackendDestroyDescriptor", one), kDone);
  EXPECT_EQ(call("cudnnBackendDestroyDescriptor", one), kBadValue);
  EXPECT_EQ(finalise(one), kBadValue);
}

TEST_F(EmulatedGraphs, AttributesHaveTheirTypeAndNumber) {
  void* const one = tensor(1, {1, 1, 2, 4});
  EXPECT_EQ(set(one, 906, kAddress, std::vector<int64_t>{2}), kBadType);
  EXPECT_EQ(set(one, 906, kNumber, std::vector<int64_t>{2, 3}), kBadValue);
  EXPECT_EQ(set(one, 902, kNumber, std::vector<int64_t>(9, 1)), kBadValue);
  EXPECT_EQ(set(one, 1500, kElement, std::vector<int>{0}), kBadValue) << "an attribute of products";
  EXPECT_EQ(set(one, 902, kNumber, std::vector<int64_t>{2, 4}), kDone);
  EXPECT_EQ(finalise(one), kBadValue) << "four strides and two extents";
  EXPECT_NE(words(), "");
  void* const empty = made(kTensor);
  EXPECT_EQ(finalise(empty), kBadValue);
  EXPECT_NE(words().find("was not set"), std::string::npos);
}

TEST_F(EmulatedGraphs, WhatAnOperationNeedsIsFinalisedBefore) {
  void *const x = tensor(1, {1, 1, 2, 4}), *const y = final_tensor(2, {1, 1, 2, 4}),
              *const operation = exponential(x, y);
  EXPECT_EQ(finalise(operation), kBadValue);
  EXPECT_EQ(finalise(x), kDone);
  void* const graph = made(kGraph);
  EXPECT_EQ(set(graph, 801, kDescriptor, std::vector<void*>{operation}), kDone);
  EXPECT_EQ(finalise(graph), kBadValue);
  EXPECT_EQ(finalise(operation), kDone);
  EXPECT_EQ(finalise(graph), kDone);
}

TEST_F(EmulatedGraphs, TensorsOfAnOperationFitTogether) {
  EXPECT_EQ(finalise(exponential(final_tensor(1, {1, 1, 2, 4}), final_tensor(2, {1, 1, 4, 2}))), kBadValue);
  void *const kind = made(kOfMatmul), *const product = made(kMatmulOperation);
  ASSERT_EQ(set(kind, 1500, kElement, std::vector<int>{0}), kDone);
  ASSERT_EQ(finalise(kind), kDone);
  ASSERT_EQ(set(product, 1523, kDescriptor, std::vector<void*>{kind}), kDone);
  ASSERT_EQ(set(product, 1520, kDescriptor, std::vector<void*>{final_tensor(1, {1, 2, 3, 4})}), kDone);
  ASSERT_EQ(set(product, 1521, kDescriptor, std::vector<void*>{final_tensor(2, {1, 2, 5, 4})}), kDone);
  ASSERT_EQ(set(product, 1522, kDescriptor, std::vector<void*>{final_tensor(3, {1, 2, 3, 5})}), kDone);
  EXPECT_EQ(finalise(product), kBadValue) << "depths of 4 and 5";
}

TEST_F(EmulatedGraphs, AReshapeIsOfTheSameMemory) {
  constexpr int kReshapeOperation = 31;
  const auto finalised = [&](void* x, void* y) {
    void* const operation = made(kReshapeOperation);
    EXPECT_EQ(set(operation, 2200, kDescriptor, std::vector<void*>{x}), kDone);
    EXPECT_EQ(set(operation, 2201, kDescriptor, std::vector<void*>{y}), kDone);
    return finalise(operation);
  };
  void *const x = final_tensor(1, {1, 1, 2, 4}), *const turned = tensor(2, {1, 1, 4, 2}, true);
  EXPECT_EQ(set(turned, 903, kNumber, std::vector<int64_t>{8, 8, 1, 4}), kDone);
  EXPECT_EQ(finalise(turned), kDone);
  EXPECT_EQ(finalised(x, turned), kDone);
  EXPECT_EQ(finalised(x, final_tensor(3, {1, 1, 4, 2}, true)), kDone);
  EXPECT_EQ(finalised(x, final_tensor(4, {1, 1, 4, 3}, true)), kBadValue);
  void* const apart = tensor(5, {1, 1, 2, 4}, true);
  EXPECT_EQ(set(apart, 903, kNumber, std::vector<int64_t>{16, 16, 8, 1}), kDone);
  EXPECT_EQ(finalise(apart), kDone);
  EXPECT_EQ(finalised(x, apart), kBadValue);
}

TEST_F(EmulatedGraphs, WhatIsVirtualIsMadeBeforeItIsReadAndIdsAreOfOneTensor) {
  const auto finalised = [&](std::vector<void*> operations) {
    for (void* one : operations) EXPECT_EQ(finalise(one), kDone);
    void* const graph = made(kGraph);
    EXPECT_EQ(set(graph, 801, kDescriptor, operations), kDone);
    return finalise(graph);
  };
  const std::vector<int64_t> extents = {1, 1, 2, 4};
  void *const x = final_tensor(1, extents), *const inner = final_tensor(2, extents, true),
              *const y = final_tensor(3, extents);
  EXPECT_EQ(finalised({exponential(inner, y)}), kBadValue);
  EXPECT_EQ(finalised({exponential(inner, y), exponential(x, inner)}), kBadValue);
  EXPECT_EQ(finalised({exponential(x, inner)}), kBadValue) << "nobody reads it";
  EXPECT_EQ(finalised({exponential(x, inner), exponential(inner, final_tensor(1, extents))}), kBadValue);
  EXPECT_EQ(finalised({exponential(x, inner), exponential(inner, y)}), kDone);
}

TEST_F(EmulatedGraphs, OnlyAttentionHasAnEngine) {
  void* const operation = exponential(final_tensor(1, {1, 1, 2, 4}), final_tensor(2, {1, 1, 2, 4}));
  ASSERT_EQ(finalise(operation), kDone);
  void *const graph = made(kGraph), *const heuristic = made(kHeuristic);
  ASSERT_EQ(set(graph, 801, kDescriptor, std::vector<void*>{operation}), kDone);
  ASSERT_EQ(finalise(graph), kDone);
  ASSERT_EQ(set(heuristic, 201, kDescriptor, std::vector<void*>{graph}), kDone);
  ASSERT_EQ(set(heuristic, 200, kMode, std::vector<int>{3}), kDone);
  void* choice = made(kChoice);
  int64_t given = -1;
  const auto results = [&] {
    return call("cudnnBackendGetAttribute", heuristic, 202, static_cast<int>(kDescriptor), int64_t{1}, &given,
                static_cast<void*>(&choice));
  };
  EXPECT_EQ(results(), kNotStarted) << "not finalised yet";
  ASSERT_EQ(finalise(heuristic), kDone);
  EXPECT_EQ(results(), kDone);
  EXPECT_EQ(given, 0);
}

TEST_F(EmulatedGraphs, APackHasEachIdOnce) {
  void* const pack = made(kPack);
  EXPECT_EQ(set(pack, 1000, kNumber, std::vector<int64_t>{1, 1}), kDone);
  EXPECT_EQ(set(pack, 1001, kAddress, std::vector<void*>{memory_, memory_}), kDone);
  EXPECT_EQ(finalise(pack), kBadValue);
  void* const short_pack = made(kPack);
  EXPECT_EQ(set(short_pack, 1000, kNumber, std::vector<int64_t>{1, 2}), kDone);
  EXPECT_EQ(set(short_pack, 1001, kAddress, std::vector<void*>{memory_}), kDone);
  EXPECT_EQ(finalise(short_pack), kBadValue);
}

}  // namespace
