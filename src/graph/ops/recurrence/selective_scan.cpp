// SPDX-License-Identifier: Apache-2.0
// The selective scan and its gradient. Both are composites: a device may walk the tokens with a state at hand.
#include "graph/ops/recurrence/selective_scan_parts.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

constexpr ErrorBounds kScanError{{ErrorScale::kTensor, 256}, {ErrorScale::kTensor, 16}};

struct ScanInputs {
  explicit ScanInputs(std::span<const Tensor> in)
      : x(widened(in[0])),
        dt(widened(in[1])),
        a(widened(in[2])),
        b(of_heads(widened(in[3]), x.dim(2))),
        c(of_heads(widened(in[4]), x.dim(2))),
        state(widened(in[5])) {}
  Tensor x, dt, a, b, c, state;  // b and c of each head
  bool one_rate() const { return a.dim(1) == 1; }
  Tensor rates() const { return dt * squeeze(a, 1); }    // [B, T, H]
  Tensor given() const { return x * unsqueeze(dt, 3); }  // [B, T, H, P]
  Tensor decays() const {                                // [B, T, H, 1, S]
    return unsqueeze(exp(unsqueeze(dt, 3) * a), 3);
  }
};

// Of outer products [..., P, S].
Tensor outer(const Tensor& x, const Tensor& y) { return unsqueeze(x, x.rank()) * unsqueeze(y, y.rank() - 1); }

// The sum over the heads of a group, as b has them: [B, T, H, S] -> [B, T, G, S]
Tensor of_groups(const Tensor& x, int64_t groups) {
  if (x.dim(2) == groups) return x;
  return reduce_sum(reshape(x, {x.dim(0), x.dim(1), groups, x.dim(2) / groups, x.dim(3)}), {3});
}

struct ScanGradients {
  Tensor x, dt, a, b, c, state;  // b and c of each head
};

// Time runs backwards: g_t = dy_t c_t + exp(rate_(t + 1)) g_(t + 1), with the cotangent of the last state behind it.
ScanGradients gradients_of_chunks(const ScanInputs& in, const Tensor& dy, const Tensor& dstate) {
  const Tensor rates = in.rates(), u = in.given();
  const int64_t T = rates.dim(1);
  const auto turned = [](const Tensor& x) { return reverse(x, {1}); };
  const Tensor later = pad(slice(turned(rates), 1, 0, T - 1), {0, 1, 0}, {0, 0, 0});
  const Tensor dy_turned = turned(dy), c_turned = turned(in.c);
  const Scanned of_given = chunked_scan(dy_turned, later, c_turned, turned(in.b), dstate);
  const Tensor du = turned(of_given.y);
  const Tensor db = turned(chunked_scan(c_turned, later, dy_turned, turned(u), transpose(dstate, 2, 3)).y);
  const Tensor dc = chunked_scan(in.b, rates, u, dy, transpose(in.state, 2, 3)).y;
  const Scanned forward = chunked_scan(u, rates, in.b, in.c, in.state);
  // Of the rates: what reaches beyond token t is what is read there less what is written, summed from the end.
  const Tensor behind = unsqueeze(reduce_sum(dstate * forward.state, {2, 3}), 1);  // [B, 1, H]
  const Tensor drates =
      turned(cumulative_sum(turned(reduce_sum(dy * forward.y - du * u, {3})), 1)) + behind;  // [B, T, H]
  const Tensor first = squeeze(slice(rates, 1, 0, 1), 1);                                    // [B, H]
  return {.x = du * unsqueeze(in.dt, 3),
          .dt = reduce_sum(du * in.x, {3}) + drates * squeeze(in.a, 1),
          .a = unsqueeze(reduce_sum(drates * in.dt, {0, 1}), 1),
          .b = db,
          .c = dc,
          .state = of_given.state * unsqueeze(unsqueeze(exp(first), 2), 3)};
}

ScanGradients gradients_of_states(const ScanInputs& in, const Tensor& dy, const Tensor& dstate) {
  const int64_t T = in.dt.dim(1);
  const Tensor decays = in.decays(), u = in.given();
  const Tensor states = all_states(outer(u, in.b), decays, in.state);  // [B, T + 1, H, P, S]
  const auto turned = [](const Tensor& x) { return reverse(x, {1}); };
  Shape one = decays.shape();
  one[1] = 1;
  const Tensor later = concatenate({full(one, 1, decays.dtype()), slice(turned(decays), 1, 0, T - 1)}, 1);
  const Tensor g = turned(slice(all_states(turned(outer(dy, in.c)), later, dstate), 1, 1, T + 1));
  const Tensor du = reduce_sum(g * unsqueeze(in.b, 3), {4});
  const Tensor passed = g * decays;                                        // to the state before
  const Tensor drates = reduce_sum(passed * slice(states, 1, 0, T), {3});  // [B, T, H, S]
  return {.x = du * unsqueeze(in.dt, 3),
          .dt = reduce_sum(du * in.x, {3}) + reduce_sum(drates * in.a, {3}),
          .a = reduce_sum(drates * unsqueeze(in.dt, 3), {0, 1}),
          .b = reduce_sum(g * unsqueeze(u, 4), {3}),
          .c = reduce_sum(slice(states, 1, 1, T + 1) * unsqueeze(dy, 4), {3}),
          .state = squeeze(slice(passed, 1, 0, 1), 1)};
}

std::vector<Sample> scan_samples(bool gradient) {
  std::vector<Sample> samples;
  struct Extents {
    int64_t B, T, H, P, G, S;
    bool one_rate;
  };
  const auto add = [&](DType dtype, const Extents& e, double limit) {
    const Shape x{e.B, e.T, e.H, e.P}, state{e.B, e.H, e.P, e.S};
    std::vector<Type> inputs{{dtype, x},
                             {dtype, {e.B, e.T, e.H}},
                             {dtype, {e.H, e.one_rate ? 1 : e.S}},
                             {dtype, {e.B, e.T, e.G, e.S}},
                             {dtype, {e.B, e.T, e.G, e.S}},
                             {dtype, state}};
    if (gradient) inputs.push_back({dtype, x}), inputs.push_back({dtype, state});
    samples.push_back({inputs, {}, -limit, limit});
  };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    add(dtype, {2, 5, 6, 1, 1, 4, false}, 0.7);
    add(dtype, {1, 3, 4, 3, 2, 5, false}, 0.7);
    add(dtype, {2, 4, 4, 3, 2, 9, true}, 0.7);
    add(dtype, {1, 1, 2, 2, 1, 3, true}, 0.7);
  }
  add(DType::kFloat32, {1, 19, 3, 1, 3, 17, false}, 0.4);
  add(DType::kFloat32, {1, 67, 2, 2, 1, 3, true}, 0.3);
  return samples;
}

const Operation kSelectiveScanGradient = {
    .name = "selective_scan_gradient",
    .kind = OperationKind::kComposite,
    .documentation =
        "(x, dt, a, b, c, state, dy, dstate): the gradients of selective_scan for its inputs, of the cotangents of its "
        "outputs.",
    .error = kScanError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 8);
      expect_scan(in, 2);
      for (const auto& [i, like] : {std::pair<size_t, size_t>{6, 0}, {7, 5}}) {
        expect_same_types(in, like, i);
        expect_same_shape(in, like, i);
      }
      check(in, in.shape(5)[0] == in.shape(0)[0], "expected a state for each of {} rows, found {}", in.shape(0)[0],
            in.shape(5));
      return {in.inputs.begin(), in.inputs.begin() + 6};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
      const ScanInputs inputs(in);
      const Tensor dy = widened(in[6]), dstate = widened(in[7]);
      ScanGradients g =
          inputs.one_rate() ? gradients_of_chunks(inputs, dy, dstate) : gradients_of_states(inputs, dy, dstate);
      const int64_t groups = in[3].dim(2);
      Tensors results{g.x, g.dt, g.a, of_groups(g.b, groups), of_groups(g.c, groups), g.state};
      for (Tensor& result : results) result = cast(result, in[0].dtype());
      return results;
    },
    .samples = []() { return scan_samples(true); }};

const Operation kSelectiveScan = {
    .name = "selective_scan",
    .kind = OperationKind::kComposite,
    .documentation =
        "(x [B, T, H, P], dt [B, T, H], a [H, S] or [H, 1], b [B, T, G, S], c [B, T, G, S], state [B, H, P, S]): "
        "h_t = exp(dt_t a) h_(t - 1) + dt_t x_t b_t from the state on -> (y [B, T, H, P] with y_t = h_t c_t, h_T). G "
        "divides H; a group of heads has one b and c.",
    .autocast = AutocastClass::kFull,
    .error = kScanError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 6);
      expect_scan(in, 2);
      check(in, in.shape(5)[0] == in.shape(0)[0], "expected a state for each of {} rows, found {}", in.shape(0)[0],
            in.shape(5));
      return {in.inputs[0], in.inputs[5]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
      const ScanInputs inputs(in);
      const int64_t T = inputs.dt.dim(1);
      Scanned result;
      if (inputs.one_rate()) {
        result = chunked_scan(inputs.given(), inputs.rates(), inputs.b, inputs.c, inputs.state);
      } else {
        const Tensor states = all_states(outer(inputs.given(), inputs.b), inputs.decays(), inputs.state);
        result.y = reduce_sum(slice(states, 1, 1, T + 1) * unsqueeze(inputs.c, 3), {4});
        result.state = squeeze(slice(states, 1, T, T + 1), 1);
      }
      return {cast(result.y, in[0].dtype()), cast(result.state, in[0].dtype())};
    },
    .gradient = [](const GradientRequest& request) -> Tensors {
      Tensors inputs(request.inputs.begin(), request.inputs.end());
      for (const auto& [output, like] : {std::pair<size_t, size_t>{0, 0}, {1, 5}}) {
        const Tensor& cotangent = request.cotangents[output];
        inputs.push_back(cotangent.defined() ? cotangent : zeros(inputs[like].shape(), inputs[like].dtype()));
      }
      return make_tensors(kSelectiveScanGradient, inputs);
    },
    .samples = []() { return scan_samples(false); }};

}  // namespace

const RegisterOperations kRegisteredSelectiveScan{&kSelectiveScan, &kSelectiveScanGradient};

namespace op {
const Operation& selective_scan = kSelectiveScan;
}  // namespace op

Scanned selective_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                       const Tensor& state) {
  std::vector<Tensor> made = make_tensors(kSelectiveScan, {x, dt, a, b, c, state});
  return {made[0], made[1]};
}

}  // namespace transom
