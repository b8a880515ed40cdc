// SPDX-License-Identifier: Apache-2.0
// Values that are needed while a graph is traced: shapes, axes, conditions.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/ir/node.h"

namespace transom::onnx {

// Thrown where a value is asked for that depends on arguments without contents: the graph cannot be traced for a
// signature, and is computed step by step instead.
struct DependsOnArguments {};

// Computes values on the host by the operation records: no program is compiled for the shape arithmetic of a graph.
// What is large, and floating numbers that depend on data, are computed by the device, so that a graph decides by the
// numbers that it computes with. Holds what it has computed, for one thread.
class HostValues {
 public:
  // `compute`: called with a value that the device is to compute, before it is read.
  explicit HostValues(std::function<void(const Tensor&)> compute) : compute_(std::move(compute)) {}

  // The values in row-major order. Throws DependsOnArguments.
  const Array& read(const Tensor& tensor);

  // A leaf whose contents are the caller's data. Leaves that are not named so are constants if they are frozen.
  void mark_data(const Tensor& leaf) { sources_[leaf.node()->sequence] = Source::kData; }
  // What a value is computed from, the last one that applies: constants of the file, the caller's data, or arguments
  // that have no contents yet.
  enum class Source { kConstants, kData, kArguments };
  Source source_of(const Tensor& tensor) { return source_of(tensor.node()); }
  // Whether a value that follows from data was read since the last call.
  bool take_data_was_read() { return std::exchange(data_was_read_, false); }

 private:
  struct Computed {
    std::shared_ptr<transom::Node> node;  // kept: its address is the key
    std::vector<Array> outputs;
  };
  Source source_of(const std::shared_ptr<transom::Node>& node);
  Source source_of_leaf(const Tensor& leaf) const;
  bool is_for_device(const std::shared_ptr<transom::Node>& node);
  const std::vector<Array>& outputs_of(const std::shared_ptr<transom::Node>& node);
  std::vector<Array> compute(const std::shared_ptr<transom::Node>& node);

  std::function<void(const Tensor&)> compute_;
  std::unordered_map<const transom::Node*, Computed> computed_;
  std::unordered_map<uint64_t, Source> sources_;  // by Node::sequence, which no other node ever has
  bool data_was_read_ = false;
};

}  // namespace transom::onnx
