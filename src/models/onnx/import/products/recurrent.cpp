// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM, unrolled over time.
#include <functional>

#include "base/error.h"
#include "models/onnx/import/contrib/contrib.h"
#include "models/onnx/import/elementwise/activations.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/elementwise/quantization.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

constexpr const char* kClip = "clip";

// A weight of codes, beside which the inputs are codes, too: of all their elements at each product.
struct CodedWeight {
  Tensor centred;  // i32 [I, gates * H], without the zero point
  Tensor scale;    // [] or [gates * H]
};

// What the operators share: x [T, B, I] and the weights of one direction.
struct Cell {
  Tensor w, r;                    // [gates * H, I] and [gates * H, H]; undefined with the next two
  CodedWeight coded_w, coded_r;   // of DynamicQuantizeLSTM
  Tensor input_bias, state_bias;  // [gates * H]
  std::vector<std::string> functions;
  std::vector<double> alphas, betas;
  Tensor peepholes;  // of LSTM: [3 * H], or undefined
  int64_t hidden = 0;
};

struct Sequence {
  Tensor x;        // [T, B, I]
  Tensor lengths;  // i64 [B, 1]; undefined: all of T
  int64_t T, B, directions, hidden;
  bool batch_first;
};

bool is_coded(const Call& call) { return call.node().domain == kMicrosoft; }

Sequence sequence_of(const Call& call, int64_t gates) {
  Sequence s;
  s.batch_first = call.integer("layout", 0) != 0;
  s.x = wide(s.batch_first ? transpose(call.tensor(0), 0, 1) : call.tensor(0));
  call.require(s.x.rank() == 3 && call.tensor(1).rank() == 3 && call.tensor(2).rank() == 3,
               "expected tensors of rank 3");
  s.T = s.x.dim(0), s.B = s.x.dim(1);
  const int64_t rows = is_coded(call) ? 2 : 1;  // the axis of the gates: weights of codes are transposed
  s.directions = call.tensor(1).dim(0), s.hidden = call.tensor(2).dim(3 - rows);
  call.require(call.tensor(1).dim(rows) == gates * s.hidden && call.tensor(2).dim(rows) == gates * s.hidden &&
                   call.tensor(2).dim(0) == s.directions && call.tensor(1).dim(3 - rows) == s.x.dim(2),
               "the weights do not fit each other");
  const std::string direction = call.text("direction", "forward");
  call.require(s.directions == (direction == "bidirectional" ? 2 : 1), "the weights do not fit the direction");
  if (s.T > 8192) call.not_supported("more than 8192 steps");
  if (call.has(4)) s.lengths = reshape(cast(call.tensor(4), DType::kInt64), {s.B, 1});
  return s;
}

// Scales and zero points of [directions] or [directions, gates * H].
CodedWeight coded_weight(const Call& call, const Sequence& s, size_t input, size_t scale, int64_t direction) {
  const Tensor codes = cast(squeeze(slice(call.tensor(input), 0, direction, direction + 1), 0), DType::kInt32);
  const auto beside = [&](size_t place) {
    const Tensor& values = call.tensor(place);
    call.require(values.rank() >= 1 && values.dim(0) == s.directions &&
                     (values.size() == s.directions || values.shape() == Shape{s.directions, codes.dim(1)}),
                 "the scales and zero points do not fit the weights");
    const Tensor own = slice(values, 0, direction, direction + 1);
    return own.size() == 1 ? reshape(own, {}) : reshape(own, {codes.dim(1)});
  };
  return {sub(codes, cast(beside(scale + 1), DType::kInt32)), cast(beside(scale), s.x.dtype())};
}

// x [.., I] by a weight [gates * H, I], or by codes.
Tensor gate_product(const Call& call, const Tensor& x, const Tensor& weight, const CodedWeight& coded) {
  if (weight.defined()) return matmul(x, transpose(weight, 0, 1), call.computing());
  const DynamicCodes codes = dynamic_codes(x);
  const Tensor centred = sub(cast(codes.codes, DType::kInt32), cast(codes.zero_point, DType::kInt32));
  return mul(cast(matmul(centred, coded.centred, call.computing()), x.dtype()), mul(codes.scale, coded.scale));
}

Cell cell_of(const Call& call, const Sequence& s, int64_t direction, int64_t gates,
             std::vector<std::string> functions) {
  const auto part = [&](size_t input) {
    return cast(squeeze(slice(call.tensor(input), 0, direction, direction + 1), 0), s.x.dtype());
  };
  const bool coded = is_coded(call);
  Cell cell{.w = coded ? Tensor() : part(1),
            .r = coded ? Tensor() : part(2),
            .coded_w = coded ? coded_weight(call, s, 1, 8, direction) : CodedWeight{},
            .coded_r = coded ? coded_weight(call, s, 2, 10, direction) : CodedWeight{},
            .input_bias = {},
            .state_bias = {},
            .functions = {},
            .alphas = {},
            .betas = {},
            .peepholes = {}};
  cell.hidden = s.hidden;
  if (gates == 4 && call.has(7)) cell.peepholes = part(7);
  const int64_t n = gates * s.hidden;
  const Tensor bias = call.has(3) ? part(3) : zeros({2 * n}, s.x.dtype());
  cell.input_bias = slice(bias, 0, 0, n), cell.state_bias = slice(bias, 0, n, 2 * n);
  const std::vector<std::string> named = call.texts("activations");
  const size_t count = functions.size(), first = static_cast<size_t>(direction) * count;
  call.require(named.empty() || named.size() >= first + count, "activations must name one for each gate");
  cell.functions = std::move(functions);
  for (size_t i = 0; i < count && !named.empty(); ++i) cell.functions[i] = named[first + i];
  const std::vector<double> alphas = call.numbers("activation_alpha"), betas = call.numbers("activation_beta");
  for (size_t i = 0; i < count; ++i) {
    const std::string& f = cell.functions[i];
    const double alpha = f == "LeakyRelu" ? 0.01 : f == "HardSigmoid" ? 0.2 : 1, beta = f == "HardSigmoid" ? 0.5 : 0;
    cell.alphas.push_back(first + i < alphas.size() ? alphas[first + i] : alpha);
    cell.betas.push_back(first + i < betas.size() ? betas[first + i] : beta);
  }
  return cell;
}

Tensor clipped(const Call& call, const Tensor& x) {
  if (!call.attribute(kClip)) return x;
  const double limit = call.number(kClip, 0);
  return maximum(minimum(x, constant(limit, x.dtype())), constant(-limit, x.dtype()));
}

Tensor activate(const Call& call, const Cell& cell, size_t i, const Tensor& x) {
  return activation_of(call, cell.functions[i], clipped(call, x), cell.alphas[i], cell.betas[i]);
}

Tensor gate(const Tensor& x, const Cell& cell, int64_t i) {
  return slice(x, -1, i * cell.hidden, (i + 1) * cell.hidden);
}

Tensor initial(const Call& call, const Sequence& s, size_t input, int64_t direction) {
  if (!call.has(input)) return zeros({s.B, s.hidden}, s.x.dtype());
  const Tensor& all = call.tensor(input);
  const Tensor by_direction = s.batch_first ? transpose(all, 0, 1) : all;
  return cast(squeeze(slice(by_direction, 0, direction, direction + 1), 0), s.x.dtype());
}

// step(input's part of the gates [B, gates * H], h, c) changes both states.
using Step = std::function<void(const Cell&, const Tensor& from_input, Tensor& h, Tensor& c)>;

Results unrolled(const Call& call, int64_t gates, const std::vector<std::string>& functions, bool has_cell_state,
                 const Step& step) {
  const Sequence s = sequence_of(call, gates);
  const bool only_backwards = call.text("direction", "forward") == "reverse";
  std::vector<Tensor> outputs, last_h, last_c;
  for (int64_t direction = 0; direction < s.directions; ++direction) {
    const Cell cell = cell_of(call, s, direction, gates, functions);
    const bool backwards = only_backwards || direction == 1;
    const Tensor from_input = add(gate_product(call, s.x, cell.w, cell.coded_w), cell.input_bias);  // [T, B, gates * H]
    Tensor h = initial(call, s, 5, direction), c;
    if (has_cell_state) c = initial(call, s, 6, direction);
    std::vector<Tensor> states(static_cast<size_t>(s.T));
    for (int64_t i = 0; i < s.T; ++i) {
      const int64_t t = backwards ? s.T - 1 - i : i;
      Tensor next_h = h, next_c = c;
      step(cell, squeeze(slice(from_input, 0, t, t + 1), 0), next_h, next_c);
      Tensor shown = next_h;
      if (s.lengths.defined()) {  // behind its end a row keeps its state, and shows nothing
        const Tensor inside = less(integer(t), s.lengths);
        next_h = select(inside, next_h, h);
        if (has_cell_state) next_c = select(inside, next_c, c);
        shown = select(inside, next_h, constant(0, h.dtype()));
      }
      h = next_h, c = next_c;
      states[static_cast<size_t>(t)] = unsqueeze(shown, 0);
    }
    outputs.push_back(unsqueeze(states.empty() ? zeros({0, s.B, s.hidden}, s.x.dtype()) : concatenate(states, 0), 1));
    last_h.push_back(unsqueeze(h, 0));
    if (has_cell_state) last_c.push_back(unsqueeze(c, 0));
  }
  const auto finished = [&](Tensor x) { return call.like(0, cast(x, call.tensor(0).dtype())); };
  Tensor y = concatenate(outputs, 1);  // [T, directions, B, H]
  if (s.batch_first) y = permute(y, {2, 0, 1, 3});
  const auto state = [&](const std::vector<Tensor>& parts) {
    const Tensor all = concatenate(parts, 0);  // [directions, B, H]
    return finished(s.batch_first ? transpose(all, 0, 1) : all);
  };
  Results results{finished(y), state(last_h)};
  if (has_cell_state) results.push_back(state(last_c));
  return results;
}

Tensor recurrent_product(const Call& call, const Tensor& h, const Tensor& r) {
  return matmul(h, transpose(r, 0, 1), call.computing());
}

Results rnn(Call& call) {
  return unrolled(call, 1, {"Tanh"}, false, [&](const Cell& cell, const Tensor& x, Tensor& h, Tensor&) {
    h = activate(call, cell, 0, add(x, add(recurrent_product(call, h, cell.r), cell.state_bias)));
  });
}

// Gates z, r, h (Cho et al., 2014).
Results gru(Call& call) {
  const bool linear_before_reset = call.integer("linear_before_reset", 0) != 0;
  return unrolled(call, 3, {"Sigmoid", "Tanh"}, false, [&](const Cell& cell, const Tensor& x, Tensor& h, Tensor&) {
    const int64_t H = cell.hidden;
    const Tensor r_zr = slice(cell.r, 0, 0, 2 * H), r_h = slice(cell.r, 0, 2 * H, 3 * H);
    const Tensor b_zr = slice(cell.state_bias, 0, 0, 2 * H), b_h = slice(cell.state_bias, 0, 2 * H, 3 * H);
    const Tensor zr = activate(call, cell, 0, add(slice(x, 1, 0, 2 * H), add(recurrent_product(call, h, r_zr), b_zr)));
    const Tensor z = gate(zr, cell, 0), reset = gate(zr, cell, 1);
    const Tensor from_state = linear_before_reset ? mul(reset, add(recurrent_product(call, h, r_h), b_h))
                                                  : add(recurrent_product(call, mul(reset, h), r_h), b_h);
    const Tensor candidate = activate(call, cell, 1, add(gate(x, cell, 2), from_state));
    h = add(mul(sub(constant(1, z.dtype()), z), candidate), mul(z, h));
  });
}

// Gates i, o, f, c (Hochreiter and Schmidhuber, 1997) with peepholes.
Results lstm(Call& call) {
  const bool coupled = call.integer("input_forget", 0) != 0;
  return unrolled(call, 4, {"Sigmoid", "Tanh", "Tanh"}, true,
                  [&](const Cell& cell, const Tensor& x, Tensor& h, Tensor& c) {
                    const int64_t H = cell.hidden;
                    const Tensor gates = add(x, add(gate_product(call, h, cell.r, cell.coded_r), cell.state_bias));
                    const auto with_peephole = [&](int64_t i, int64_t hole, const Tensor& state) {
                      const Tensor part = gate(gates, cell, i);
                      if (!cell.peepholes.defined()) return part;
                      return add(part, mul(slice(cell.peepholes, 0, hole * H, (hole + 1) * H), state));
                    };
                    const Tensor in = activate(call, cell, 0, with_peephole(0, 0, c));
                    const Tensor forget =
                        coupled ? sub(constant(1, in.dtype()), in) : activate(call, cell, 0, with_peephole(2, 2, c));
                    const Tensor candidate = activate(call, cell, 1, gate(gates, cell, 3));
                    c = add(mul(forget, c), mul(in, candidate));
                    const Tensor out = activate(call, cell, 0, with_peephole(1, 1, c));
                    h = mul(out, activation_of(call, cell.functions[2], c, cell.alphas[2], cell.betas[2]));
                  });
}

// An LSTM whose weights are codes, with scales and zero points behind its inputs.
Results dynamic_quantize_lstm(Call& call) {
  only_attributes(
      call, {"activation_alpha", "activation_beta", "activations", kClip, "direction", "hidden_size", "input_forget"});
  for (size_t input = 8; input < 12; ++input) call.tensor(input);  // refuses a node without them
  return lstm(call);
}

}  // namespace

const RegisterOperators kRecurrent = {
    {"RNN", rnn, 7}, {"GRU", gru, 7}, {"LSTM", lstm, 7}, contrib("DynamicQuantizeLSTM", dynamic_quantize_lstm)};

}  // namespace transom::onnx
