// SPDX-License-Identifier: Apache-2.0
// What processes compute together. The runtime runs these between the programs of a device (see
// runtime/partitioned_program.h); where there is one process only, each of them is its input.
#include "graph/ops/movement/collectives.h"

#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

int64_t processes_of(const Attributes& attributes) {
  const bool listed = attributes.has("group");
  return attributes.get_int("processes", listed ? static_cast<int64_t>(attributes.get_ints("group").size()) : 1);
}

void expect_collective(const Inference& in) {
  expect_between(in, {in.attributes.get_int("order")}, 0, 2 * kBackwardOrder, "an order");
  if (!in.attributes.has("group")) return;
  const Axes& group = in.attributes.get_ints("group");
  for (size_t i = 0; i < group.size(); ++i)
    check(in, group[i] >= 0 && (i == 0 || group[i - 1] < group[i]), "ranks [{}] of a group must rise",
          fmt::join(group, ", "));
  check(in, static_cast<int64_t>(group.size()) == processes_of(in.attributes), "{} processes, but a group of {}",
        processes_of(in.attributes), group.size());
}

void expect_collective_of_one(const Inference& in) {
  expect_inputs(in, 1);
  expect_collective(in);
}

// The number of processes, by which axis 0 is split or joined.
int64_t expect_processes(const Inference& in) {
  expect_collective_of_one(in);
  const int64_t processes = in.attributes.get_int("processes");
  expect_between(in, {processes}, 1, 1 << 20, "a number of processes");
  check(in, in.rank(0) >= 1, "expected at least one axis, found {}", in.inputs[0]);
  return processes;
}

int64_t expect_parts(const Inference& in) {
  const int64_t processes = expect_processes(in);
  check(in, in.shape(0)[0] % processes == 0, "{} rows do not split into {} parts", in.shape(0)[0], processes);
  return processes;
}

// Without a group of processes there is one.
Tensors alone(std::span<const Tensor> in, const Attributes& attributes) {
  if (const int64_t processes = processes_of(attributes); processes != 1)
    fail("{}a collective of {} processes: expected a device that has joined them, found one process", scope_prefix(),
         processes);
  return {in[0]};
}

// Backward passes run the collectives in the opposite order, all behind those of the forward pass.
Attributes backward(const Attributes& attributes) {
  Attributes result = attributes;
  result.set("order", kBackwardOrder - attributes.get_int("order"));
  return result;
}

std::vector<Sample> samples_of(const Attributes& attributes) {
  Attributes of_group = attributes;
  of_group.set("group", Axes{0});
  of_group.set("order", int64_t{3});
  return {{{{DType::kFloat32, {5}}}, attributes}, {{{DType::kBFloat16, {2, 3}}}, of_group}};
}

Tensor all_to_all_of(const Tensor& x, const Attributes& attributes);
Tensor all_gather_of(const Tensor& x, const Attributes& attributes);
Tensor reduce_scatter_of(const Tensor& x, const Attributes& attributes);
Tensor collective_permute_of(Tensors inputs, const Attributes& attributes);

const Operation kAllReduce = {
    .name = "all_reduce",
    .kind = OperationKind::kComposite,
    .documentation =
        "x summed over the processes of the group: those whose ranks `group` lists, or all. `order` says when, among "
        "the collectives of a graph.",
    .collective = true,
    .error = kExactError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_collective_of_one(in);
      expect_floating(in, 0);
      return {in.inputs[0]};
    },
    .decompose = alone,
    .gradient = [](const GradientRequest& request) -> Tensors {
      return {make_tensor(op::all_reduce, {request.cotangents[0]}, backward(request.attributes))};
    },
    .samples =
        [] {
          return samples_of({{"order", int64_t{0}}});
        }};

const Operation kAllToAll = {
    .name = "all_to_all",
    .kind = OperationKind::kComposite,
    .documentation =
        "x split along axis 0 into one part for each of the `processes` of the `group`; the parts that they have for "
        "this one, by rank; see `order`.",
    .collective = true,
    .error = kExactError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_parts(in);
      return {in.inputs[0]};
    },
    .decompose = alone,
    .gradient = [](const GradientRequest& request) -> Tensors {
      return {all_to_all_of(request.cotangents[0], backward(request.attributes))};
    },
    .samples =
        [] {
          return samples_of({{"order", int64_t{0}}, {"processes", int64_t{1}}});
        }};

const Operation kAllGather = {
    .name = "all_gather",
    .kind = OperationKind::kComposite,
    .documentation =
        "The x of all `processes` of the `group`, one behind the other along axis 0, by rank; see `order`.",
    .collective = true,
    .error = kExactError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      Type type = in.inputs[0];
      const int64_t processes = expect_processes(in);
      type.shape[0] *= processes;
      return {type};
    },
    .decompose = alone,
    .gradient = [](const GradientRequest& request) -> Tensors {
      return {reduce_scatter_of(request.cotangents[0], backward(request.attributes))};
    },
    .samples =
        [] {
          return samples_of({{"order", int64_t{0}}, {"processes", int64_t{1}}});
        }};

const Operation kReduceScatter = {
    .name = "reduce_scatter",
    .kind = OperationKind::kComposite,
    .documentation =
        "x summed over the `processes` of the `group` and split along axis 0: each gets the part of its rank; see "
        "`order`.",
    .collective = true,
    .error = kExactError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      const int64_t processes = expect_parts(in);
      expect_floating(in, 0);
      Type type = in.inputs[0];
      type.shape[0] /= processes;
      return {type};
    },
    .decompose = alone,
    .gradient = [](const GradientRequest& request) -> Tensors {
      return {all_gather_of(request.cotangents[0], backward(request.attributes))};
    },
    .samples =
        [] {
          return samples_of({{"order", int64_t{0}}, {"processes", int64_t{1}}});
        }};

// The process whose x comes here, as a place in the group, is `shift` places before this one.
const Operation kCollectivePermute = {
    .name = "collective_permute",
    .kind = OperationKind::kComposite,
    .documentation =
        "(x, after): x goes to the process that is `shift` places behind this one among the `processes` of the "
        "`group`, "
        "around its end, not before `after` is computed, which may be left out; the result is what comes here, of the "
        "`shape` that it has there. See `order`.",
    .collective = true,
    .error = kExactError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      check(in, in.inputs.size() == 1 || in.inputs.size() == 2, "expected x, and what comes before it or nothing");
      expect_collective(in);
      const int64_t processes = in.attributes.get_int("processes");
      expect_between(in, {processes}, 1, 1 << 20, "a number of processes");
      expect_between(in, {in.attributes.get_int("shift")}, 0, processes - 1, "a shift");
      const Type type{in.dtype(0), in.attributes.get_ints("shape")};
      check(in, elements(type.shape) > 0 && elements(in.shape(0)) > 0, "expected elements, found {} for {}",
            in.inputs[0], type);
      check(in, in.attributes.get_int("shift") > 0 || type == in.inputs[0], "x is {} here and not {}", in.inputs[0],
            type);
      return {type};
    },
    .decompose = alone,
    .gradient = [](const GradientRequest& request) -> Tensors {
      Attributes attributes = backward(request.attributes);
      const int64_t processes = attributes.get_int("processes");
      attributes.set("shift", (processes - attributes.get_int("shift")) % processes);
      attributes.set("shape", request.inputs[0].shape());
      Tensors result(request.inputs.size());
      result[0] = collective_permute_of({request.cotangents[0]}, attributes);
      return result;
    },
    .samples =
        [] {
          std::vector<Sample> samples =
              samples_of({{"order", int64_t{0}}, {"processes", int64_t{1}}, {"shift", int64_t{0}}});
          for (Sample& sample : samples) sample.attributes.set("shape", sample.inputs[0].shape);
          return samples;
        }};

Tensor collective_permute_of(Tensors inputs, const Attributes& attributes) {
  return make_tensor(kCollectivePermute, std::move(inputs), attributes);
}
Tensor all_to_all_of(const Tensor& x, const Attributes& attributes) { return make_tensor(kAllToAll, {x}, attributes); }
Tensor all_gather_of(const Tensor& x, const Attributes& attributes) { return make_tensor(kAllGather, {x}, attributes); }
Tensor reduce_scatter_of(const Tensor& x, const Attributes& attributes) {
  return make_tensor(kReduceScatter, {x}, attributes);
}

}  // namespace

const RegisterOperations kRegisteredCollectives{&kAllReduce, &kAllToAll, &kAllGather, &kReduceScatter,
                                                &kCollectivePermute};

namespace op {
const Operation& all_reduce = kAllReduce;
const Operation &all_to_all = kAllToAll, &all_gather = kAllGather, &reduce_scatter = kReduceScatter;
const Operation& collective_permute = kCollectivePermute;
}  // namespace op

namespace {

Attributes attributes_of(int64_t order, const Axes& group, int64_t processes = 0) {
  Attributes attributes{{"order", order}};
  if (processes > 0) attributes.set("processes", processes);
  if (!group.empty()) attributes.set("group", group);
  return attributes;
}

}  // namespace

Tensor all_reduce(const Tensor& x, int64_t order, const Axes& group) {
  return make_tensor(kAllReduce, {x}, attributes_of(order, group));
}

Tensor all_to_all(const Tensor& x, int64_t processes, int64_t order, const Axes& group) {
  return all_to_all_of(x, attributes_of(order, group, processes));
}
Tensor all_gather(const Tensor& x, int64_t processes, int64_t order, const Axes& group) {
  return all_gather_of(x, attributes_of(order, group, processes));
}
Tensor reduce_scatter(const Tensor& x, int64_t processes, int64_t order, const Axes& group) {
  return reduce_scatter_of(x, attributes_of(order, group, processes));
}
Tensor collective_permute(const Tensor& x, int64_t processes, int64_t shift, const Shape& shape, int64_t order,
                          const Axes& group, const Tensor& after) {
  Attributes attributes = attributes_of(order, group, processes);
  attributes.set("shift", shift);
  attributes.set("shape", shape);
  return collective_permute_of(after.defined() ? Tensors{x, after} : Tensors{x}, attributes);
}

}  // namespace transom
