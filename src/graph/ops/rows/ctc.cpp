// SPDX-License-Identifier: Apache-2.0
// The CTC loss and its gradient: the forward and backward recursions over the extended targets, blank l1 blank l2 ...
// blank, in log space. B rows, T frames, V classes, L targets, S = 2 L + 1 states.
#include "graph/ops/rows/ctc.h"

#include <array>
#include <limits>

#include "graph/ops/rules.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

// The logarithm of what cannot be: finite, so that differences of two of them stay numbers.
constexpr double kNever = -1e30;

void expect_ctc(const Inference& in) {
  expect_floating(in, 0);
  check(in, in.rank(0) == 3, "expected log probabilities [B, T, V], found {}", in.shape(0));
  const int64_t B = in.shape(0)[0];
  check(in, in.rank(1) == 2 && in.shape(1)[0] == B && in.shape(1)[1] >= 1 && in.dtype(1) == DType::kInt64,
        "expected targets i64[{}, 1 or more], found {}", B, in.inputs[1]);
  for (const size_t i : {2, 3})
    check(in, in.inputs[i] == Type{DType::kInt64, {B}}, "expected lengths i64[{}], found {}", B, in.inputs[i]);
  expect_between(in, {in.attributes.get_int("blank")}, 0, in.shape(0)[2] - 1, "blank");
  check(in, in.shape(0)[1] >= 1, "expected at least one frame");
}

// What both recursions are made of.
struct Lattice {
  Lattice(std::span<const Tensor> in, int64_t blank);
  Tensor row(const Tensor& x) const { return broadcast_to(unsqueeze(x, 1), {B, S}); }  // [B] -> [B, S]
  Tensor emission(int64_t t) const { return squeeze(slice(emissions, 1, t, t + 1), 1); }
  Tensor at(const Tensor& condition, const Tensor& x) const { return select(condition, x, never); }

  int64_t B, T, V, L, S;
  Tensor states;     // i64 [B, S]: the class of each
  Tensor emissions;  // [B, T, S]
  Tensor never;      // [B, S]
  Tensor skips;      // bool [B, S]: may be entered from two states before
  Tensor frames;     // i64 [B]
  Tensor last;       // bool [B, S]: the two states that a path may end in
};

Lattice::Lattice(std::span<const Tensor> in, int64_t blank)
    : B(in[0].dim(0)), T(in[0].dim(1)), V(in[0].dim(2)), L(in[1].dim(1)), S(2 * L + 1) {
  const auto whole = [&](const Shape& shape, int64_t value) {
    return full(shape, static_cast<double>(value), DType::kInt64);
  };
  const Tensor blanks = whole({B, L, 1}, blank);
  states = concatenate({reshape(concatenate({blanks, unsqueeze(in[1], 2)}, 2), {B, 2 * L}), whole({B, 1}, blank)}, 1);
  emissions = take_along_axis(in[0], broadcast_to(unsqueeze(states, 1), {B, T, S}), 2);
  never = full({B, S}, kNever, in[0].dtype());
  const Tensor before = concatenate({whole({B, 2}, blank), slice(states, 1, 0, S - 2)}, 1);
  skips = logical_and(not_equal(states, whole({B, S}, blank)), not_equal(states, before));
  frames = minimum(maximum(in[2], whole({B}, 1)), whole({B}, T));
  const Tensor lengths = minimum(maximum(in[3], whole({B}, 0)), whole({B}, L));
  const Tensor place = iota({B, S}, 1), end = row(lengths) * 2.0;
  last = logical_or(equal(place, end), equal(place, end - 1.0));
}

Tensor log_sum(const Tensor& x, const Tensor& y, const Tensor& z) {
  const Tensor most = maximum(maximum(x, y), z);
  return most + log(exp(x - most) + exp(y - most) + exp(z - most));
}

// x with its states moved by `steps` places, up or down.
Tensor moved(const Tensor& x, int64_t steps) {
  return steps > 0 ? pad(slice(x, 1, 0, x.dim(1) - steps), {0, steps}, {0, 0}, kNever)
                   : pad(slice(x, 1, -steps, x.dim(1)), {0, 0}, {0, -steps}, kNever);
}

// The log probability of all paths that are in each state at each frame, its own emission included. Behind a row's last
// frame it stays as it is.
Tensors forward(const Lattice& l) {
  const Tensor begins = less(iota({l.B, l.S}, 1), full({l.B, l.S}, 2, DType::kInt64));
  Tensors alpha{l.at(begins, l.emission(0))};
  for (int64_t t = 1; t < l.T; ++t) {
    const Tensor& x = alpha.back();
    const Tensor next = log_sum(x, moved(x, 1), l.at(l.skips, moved(x, 2))) + l.emission(t);
    const Tensor counts = l.row(greater(l.frames, full({l.B}, static_cast<double>(t), DType::kInt64)));
    alpha.push_back(select(counts, maximum(next, l.never), x));
  }
  return alpha;
}

// The log probability of the rest of all paths that are in each state at each frame.
Tensors backward(const Lattice& l) {
  const Tensor ends = l.at(l.last, full({l.B, l.S}, 0, l.never.dtype()));
  Tensors beta(static_cast<size_t>(l.T));
  beta.back() = ends;
  const Tensor skipped = greater(moved(select(l.skips, l.never * 0.0, l.never), -2), l.never);
  for (int64_t t = l.T - 2; t >= 0; --t) {
    const Tensor x = beta[static_cast<size_t>(t + 1)] + l.emission(t + 1);
    const Tensor next = log_sum(x, moved(x, -1), l.at(skipped, moved(x, -2)));
    const Tensor counts = l.row(greater(l.frames, full({l.B}, static_cast<double>(t + 1), DType::kInt64)));
    beta[static_cast<size_t>(t)] = select(counts, maximum(next, l.never), ends);
  }
  return beta;
}

// The log probability of all paths, [B].
Tensor total(const Lattice& l, const Tensor& alpha) {
  const Tensor ends = l.at(l.last, alpha);
  const Tensor most = reduce_max(ends, {1}, true);
  return squeeze(most + log(reduce_sum(exp(ends - most), {1}, true)), 1);
}

Tensor possible(const Tensor& total) { return greater(total, full(total.shape(), kNever / 2, total.dtype())); }

std::vector<Sample> ctc_samples(bool with_cotangent) {
  std::vector<Sample> samples;
  for (const auto& [B, T, V, L] : {std::array<int64_t, 4>{2, 3, 2, 1}, {3, 1, 4, 1}, {2, 6, 3, 2}}) {
    Sample sample{{{DType::kFloat32, {B, T, V}}, {DType::kInt64, {B, L}}, {DType::kInt64, {B}}, {DType::kInt64, {B}}},
                  {{"blank", int64_t{0}}},
                  -3,
                  0,
                  2};
    if (with_cotangent) sample.inputs.push_back({DType::kFloat32, {B}});
    samples.push_back(std::move(sample));
  }
  return samples;
}

const Operation kCtcLossGradient = {
    .name = "ctc_loss_gradient",
    .kind = OperationKind::kComposite,
    .documentation = "(log_probabilities, targets, frames, lengths, dy [B]): the gradient of ctc_loss.",
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 5);
      expect_ctc(in);
      return {in.inputs[0]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const Lattice l(in, attributes.get_int("blank"));
      const Tensors alpha = forward(l), beta = backward(l);
      const Tensor all = total(l, alpha.back());
      Tensors occupied;  // of each frame: the probability of being in each state, [B, 1, S]
      for (int64_t t = 0; t < l.T; ++t) {
        const auto frame = static_cast<size_t>(t);
        const Tensor counts =
            logical_and(greater(l.frames, full({l.B}, static_cast<double>(t), DType::kInt64)), possible(all));
        const Tensor there = alpha[frame] + beta[frame] - l.row(all);
        occupied.push_back(unsqueeze(exp(l.at(l.row(counts), there)), 1));
      }
      const Shape one_hot{l.B, l.S, l.V};
      const Tensor classes =
          cast(equal(broadcast_to(unsqueeze(l.states, 2), one_hot), iota(one_hot, 2)), in[0].dtype());
      const Tensor by_class =
          dot_general(concatenate(occupied, 1), classes, {{0}, {0}, {2}, {1}}, kAsGiven);  // [B, T, V]
      return {-by_class * reshape(in[4], {l.B, 1, 1})};
    },
    .samples = [] { return ctc_samples(true); }};

const Operation kCtcLoss = {
    .name = "ctc_loss",
    .kind = OperationKind::kComposite,
    .documentation =
        "(log_probabilities [B, T, V], targets i64 [B, L], frames i64 [B], lengths i64 [B]): -log of the sum over all "
        "alignments of the targets with `blank`s between; infinite where there is none.",
    .autocast = AutocastClass::kFull,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 4);
      expect_ctc(in);
      return {{in.dtype(0), {in.shape(0)[0]}}};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const Lattice l(in, attributes.get_int("blank"));
      const Tensor all = total(l, forward(l).back());
      return {select(possible(all), -all, full(all.shape(), std::numeric_limits<double>::infinity(), all.dtype()))};
    },
    .gradient = [](const GradientRequest& request) -> Tensors {
      return {make_tensor(
                  kCtcLossGradient,
                  {request.inputs[0], request.inputs[1], request.inputs[2], request.inputs[3], request.cotangents[0]},
                  request.attributes),
              Tensor(), Tensor(), Tensor()};
    },
    .samples = [] { return ctc_samples(false); }};

}  // namespace

const RegisterOperations kRegisteredCtc{&kCtcLoss, &kCtcLossGradient};

Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets, const Tensor& frames, const Tensor& lengths,
                int64_t blank, const Computing& computing) {
  return make_tensor(kCtcLoss,
                     autocast_inputs(kCtcLoss,
                                     {log_probabilities, cast(targets, DType::kInt64), cast(frames, DType::kInt64),
                                      cast(lengths, DType::kInt64)},
                                     computing),
                     {{"blank", blank}});
}

}  // namespace transom
