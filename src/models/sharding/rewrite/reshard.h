// SPDX-License-Identifier: Apache-2.0
// From one placement to another: the collectives between, as nodes of the graph of this process.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/attributes.h"
#include "models/sharding/placement.h"
#include "models/sharding/rewrite/order_collectives.h"
#include "transom/tensor.h"

namespace transom {

// What this process has of a tensor.
struct ShardedValue {
  Tensor local;
  Shape shape;  // of the whole
  Placement placement;
};

// A collective as it was inserted.
struct CollectiveRecord {
  std::string kind;  // "all_gather", ...
  MeshAxes axes;
  int64_t bytes = 0;  // of its input on this process
  std::string scope;  // the module that it was inserted for
};

// All processes of the mesh ask one for the same, in the same order. For one thread.
class Resharder {
 public:
  explicit Resharder(const ProcessMesh& mesh, int64_t first_order = 0) : mesh_(mesh), next_order_(first_order) {}

  // The value under another placement. Where the target is partial, over axes over which the value is, too, or is the
  // same on all processes: then one of them has it and the others zeros.
  ShardedValue reshard(const ShardedValue& value, const Placement& target);
  // What the processes along these axes have, one behind the other along a new first dimension.
  Tensor stacked(const Tensor& local, MeshAxes axes);
  // What the process `shift` places before this one along the axis, around the end, gives as its `local`, which has
  // this shape; see collective_permute.
  Tensor shifted(const Tensor& local, MeshAxis axis, int64_t shift, const Shape& shape, const Tensor& after);
  // x in one part for each process along the axis: what they have for this one.
  Tensor exchanged(const Tensor& x, MeshAxis axis) { return collective("all_to_all", x, {axis}); }
  // What collectives that are inserted from now on are for. Those of parameters and gradients start by units (see
  // order_collectives.h); gathers of parameters start no earlier than what is before them in the graph (see
  // passes/partition.h), so that not all are gathered at once.
  enum class Purpose { kValues, kParameters, kGradients };
  void work_for(Purpose purpose) { purpose_ = purpose; }
  // The last unit of parameters; -1: none.
  int64_t parameter_unit() const { return parameter_units_.current(); }

  const std::vector<CollectiveRecord>& records() const { return records_; }

 private:
  ShardedValue reshard_joined(const ShardedValue& value, const Placement& target, size_t dimension);
  void sum(ShardedValue& value, MeshAxes axes);
  void gather_last_axis(ShardedValue& value, size_t dimension, size_t cut);
  void scatter_sum(ShardedValue& value, size_t dimension, const Cut& cut);
  void share_owned(ShardedValue& value, size_t dimension);
  void slice_along(ShardedValue& value, size_t dimension, const Cut& cut);
  bool try_all_to_all(ShardedValue& value, const Placement& target);
  bool adds_axis(const Cuts& less, const Cuts& more, MeshAxis axis) const;
  bool has_one_unit_each(const Cut& cut) const;
  void exchange_even(ShardedValue& value, size_t from, size_t to, MeshAxis axis, int64_t inner_from, int64_t inner_to);
  void exchange(ShardedValue& value, size_t from, size_t to, const Cut& now, const Cut& then);
  Tensor collective(const char* kind, const Tensor& x, MeshAxes axes);
  Attributes attributes_of(MeshAxes axes);
  void record(const char* kind, const Tensor& x, MeshAxes axes);

  const ProcessMesh& mesh_;
  int64_t next_order_;
  Purpose purpose_ = Purpose::kValues;
  CollectiveUnits parameter_units_, gradient_units_;
  std::vector<CollectiveRecord> records_;
};

// x without what other processes have: elements [begin, end) of `dimension`, in the cheapest way that the node of x
// allows: of what is broadcast or counted, nothing more is made.
Tensor sliced(const Tensor& x, int64_t dimension, int64_t begin, int64_t end);

}  // namespace transom
