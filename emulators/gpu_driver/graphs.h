// SPDX-License-Identifier: Apache-2.0
// Graphs of operations as cuDNN's backend interface describes them: what the look-alike keeps of finalised descriptors,
// and how it carries them out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace emulator::graphs {

// cudnnDataType_t.
enum Element : int { kF32 = 0, kF16 = 2, kI32 = 4, kBf16 = 9, kBool = 11 };
// cudnnPointwiseMode_t.
enum Pointwise : int {
  kAdd = 0,
  kMultiply = 1,
  kMax = 3,
  kDivide = 6,
  kSubtract = 9,
  kExp = 13,
  kLog = 15,
  kAtLeast = 303,
  kIndex = 501,
  kSelect = 601
};
enum Reduction : int { kSum = 0, kLargest = 3 };

struct Tensor {
  int64_t id = 0, alignment = 1;
  int element = -1;
  std::vector<int64_t> extents, strides;
  bool inside = false;    // "virtual": no memory holds it
  bool by_value = false;  // one number in the host's memory
  int64_t count() const;
  int64_t bytes() const;  // from the first element to the last
};

struct Operation {
  enum Kind { kMatmul, kPointwise, kReduction, kReshape } kind = kMatmul;
  int mode = 0;
  int computed = kF32;
  int64_t axis = 0;  // of kIndex
  std::shared_ptr<const Tensor> x, b, t, y;
  // Empty if its tensors fit together, else what does not.
  std::string fault() const;
};

struct Graph {
  std::vector<Operation> operations;
  // What nobody inside makes, or what is kept: by id.
  std::map<int64_t, std::shared_ptr<const Tensor>> outside;
  // Empty if it can be carried out in its order, else why not.
  std::string fault();
  // Empty if it is an attention that cuDNN documents as supported, two products around a softmax with kept statistics,
  // or its gradient, five products: 16-bit operands, heads of 64 or 128.
  std::string refusal() const;
  // Whether the engines that are given have the same bits at every run, too: not where a gradient adds to memory of
  // f32.
  bool repeats() const;
  // `memory` by id. `varies`: with other bits at each run.
  void compute(const std::map<int64_t, void*>& memory, bool varies) const;
};

}  // namespace emulator::graphs
