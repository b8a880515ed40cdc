// SPDX-License-Identifier: Apache-2.0
// Operands of a kernel that computes in f32 where the library has no products of their 16-bit type.
#pragma once

#include <vector>

#include "cpu/device/library.h"
#include "cpu/kernels/kernel.h"
#include "cpu/kernels/widening.h"

namespace transom::cpu {

class WideOperands {
 public:
  // These inputs have one type, which the first `outputs` outputs have too.
  WideOperands(const Node& node, std::vector<size_t> inputs, size_t outputs)
      : stored_(node.input(inputs[0]).dtype), inputs_(std::move(inputs)) {
    for (const size_t input : inputs_) counts_.push_back(node.input(input).count());
    for (size_t i = 0; i < outputs; ++i) counts_.push_back(node.output(i).count());
    total_inputs_ = node.input_count();
  }

  // What is computed on.
  transom_dtype dtype() const { return library_computes(stored_) ? stored_ : TRANSOM_FLOAT32; }

  size_t scratch_bytes() const {
    size_t bytes = 0;
    if (stored_ != dtype())
      for (const int64_t count : counts_) bytes += aligned(static_cast<size_t>(count) * sizeof(float));
    return bytes;
  }

  // compute(arguments): with the operands in dtype(), and no reader.
  template <typename Compute>
  void run(const Arguments& arguments, Compute&& compute) const {
    if (stored_ == dtype()) return compute(arguments);
    std::vector<std::byte*> inputs(arguments.inputs, arguments.inputs + total_inputs_), outputs;
    std::byte* scratch = arguments.scratch;
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (i < inputs_.size()) {
        widen(stored_, arguments.inputs[inputs_[i]], reinterpret_cast<float*>(scratch), counts_[i]);
        inputs[inputs_[i]] = scratch;
      } else {
        outputs.push_back(scratch);
      }
      scratch += aligned(static_cast<size_t>(counts_[i]) * sizeof(float));
    }
    compute(Arguments{inputs.data(), outputs.data(), arguments.input_buffers, arguments.input_offsets, scratch});
    for (size_t i = 0; i < outputs.size(); ++i)
      narrow(stored_, reinterpret_cast<const float*>(outputs[i]), arguments.outputs[i], counts_[inputs_.size() + i]);
  }

 private:
  transom_dtype stored_;
  std::vector<size_t> inputs_;
  std::vector<int64_t> counts_;  // elements of those inputs, then of the outputs
  size_t total_inputs_;
};

}  // namespace transom::cpu
