// SPDX-License-Identifier: Apache-2.0
// Recurrences over the tokens of a text, as Scan: one token after the other, for texts of every length. What does not
// hang on the state is computed for all tokens before. B batch, T time, H heads, P their width, S width of a state.
#include "models/onnx/export/lowering.h"

namespace transom::onnx {
namespace {

using Operands = std::vector<Operand>;

const Extent kOne = constant_extent(1);

// Names of values of a body, which values around it never have.
std::string inside(const std::string& name) { return "/scan/" + name; }

WrittenValue value_inside(const std::string& name, const Extents& shape) {
  WrittenValue value{inside(name), DType::kFloat32, {}};
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (is_constant(shape[axis])) value.shape.emplace_back(shape[axis][0]);
    else value.shape.emplace_back(fmt::format("{}_{}", inside(name), axis));
  return value;
}

class Body {
 public:
  Body() { body_.name = "token"; }
  void input(const std::string& name, const Extents& shape) { body_.inputs.push_back(value_inside(name, shape)); }
  void output(const std::string& name, const Extents& shape) { body_.outputs.push_back(value_inside(name, shape)); }
  void node(const std::string& operation, const std::string& x, const std::string& y, const std::string& result) {
    body_.nodes.push_back(
        {operation, inside(operation + "/" + result), {inside(x), inside(y)}, {inside(result)}, {}, {}});
  }
  std::shared_ptr<const WrittenModel> finish() { return std::make_shared<const WrittenModel>(std::move(body_)); }

 private:
  WrittenModel body_;
};

// The values around a scan, in f32.
class Around {
 public:
  explicit Around(const Lowering& l) : l_(l), b_(l.builder), x_(l.shape(0)), state_(l.shape(5)) {}

  ValueId f32(size_t input) const { return b_.cast(l_.value(input), DType::kFloat32); }
  ValueId made(const char* operation, const std::vector<ValueId>& inputs, const Extents& shape) const {
    return b_.node(operation, inputs, {DType::kFloat32, shape});
  }
  // [B, T, H] with axes of 1 behind.
  ValueId of_heads(ValueId value, size_t ones) const {
    Extents shape{x_[0], x_[1], x_[2]};
    shape.insert(shape.end(), ones, kOne);
    return b_.reshape(value, shape);
  }
  // [B, T, H, P] -> [B, T, H, P, 1]
  ValueId column(ValueId value) const { return b_.reshape(value, {x_[0], x_[1], x_[2], x_[3], kOne}); }
  // Of groups of heads [B, T, G, S] -> [B, T, H, S, 1] or, as a row, [B, T, H, 1, S]
  ValueId of_groups(size_t input, bool row) const {
    const Extents& shape = l_.shape(input);
    const Extent H = x_[2], S = shape[3], each = constant_extent(H[0] / shape[2][0]);
    ValueId value = f32(input);
    if (each != kOne) {
      value = b_.reshape(value, {x_[0], x_[1], shape[2], kOne, S});
      value = b_.expand(value, {x_[0], x_[1], shape[2], each, S});
    }
    return b_.reshape(value, row ? Extents{x_[0], x_[1], H, kOne, S} : Extents{x_[0], x_[1], H, S, kOne});
  }

  // The states one after the other, and [B, H, P, 1] of each token: y [B, T, H, P] and the last state, as typed.
  Operands scan(const std::vector<std::pair<std::string, ValueId>>& tokens, Body body) const {
    std::vector<ValueId> inputs{f32(5)};
    for (const auto& [name, value] : tokens) {
      inputs.push_back(value);
      const Extents& shape = b_.shape(value);
      body.input(name, {shape[0], shape[2], shape[3], shape[4]});
    }
    const auto count = static_cast<int64_t>(tokens.size());
    const Extents column{x_[0], x_[2], x_[3], kOne};
    body.output("left", state_);
    body.output("y", column);
    const std::vector<ValueId> results =
        b_.nodes("Scan", inputs, {{DType::kFloat32, state_}, {DType::kFloat32, {x_[0], x_[1], x_[2], x_[3], kOne}}},
                 {{"num_scan_inputs", count},
                  {"scan_input_axes", std::vector<int64_t>(tokens.size(), 1)},
                  {"scan_output_axes", std::vector<int64_t>{1}}},
                 {{"body", body.finish()}});
    const ValueId y = b_.cast(b_.reshape(results[1], x_), l_.type(0).dtype);
    return {whole(y, l_.type(0)), whole(b_.cast(results[0], l_.type(1).dtype), l_.type(1))};
  }

  const Extents& state() const { return state_; }

 private:
  const Lowering& l_;
  GraphBuilder& b_;
  const Extents &x_, &state_;
};

// h_t = exp(dt_t a) h_(t - 1) + dt_t x_t b_t', y_t = h_t c_t
Operands selective_scan(const Lowering& l) {
  const Around around(l);
  GraphBuilder& b = l.builder;
  const Extents &x = l.shape(0), &a = l.shape(2);  // a [H, S or 1]
  const ValueId dt = around.f32(1);
  const ValueId rates = around.made("Mul", {around.of_heads(dt, 1), around.f32(2)}, {x[0], x[1], x[2], a[1]});
  const ValueId decay = b.reshape(around.made("Exp", {rates}, b.shape(rates)), {x[0], x[1], x[2], kOne, a[1]});
  const ValueId given = around.column(around.made("Mul", {around.f32(0), around.of_heads(dt, 1)}, x));
  Body body;
  body.input("before", around.state());
  body.node("Mul", "before", "decay", "kept");
  body.node("Mul", "given", "b", "added");
  body.node("Add", "kept", "added", "left");
  body.node("MatMul", "left", "c", "y");
  return around.scan(
      {{"decay", decay}, {"given", given}, {"b", around.of_groups(3, true)}, {"c", around.of_groups(4, false)}},
      std::move(body));
}

// h_t = a h_(t - 1) + beta_t (v_t - a h_(t - 1) k_t) k_t', y_t = h_t q_t
Operands gated_delta_rule(const Lowering& l) {
  const Around around(l);
  const ValueId decay = around.made("Exp", {around.of_heads(around.f32(1), 2)},
                                    {l.shape(0)[0], l.shape(0)[1], l.shape(0)[2], kOne, kOne});
  Body body;
  body.input("before", around.state());
  body.node("Mul", "before", "decay", "kept");
  body.node("MatMul", "kept", "k", "known");
  body.node("Sub", "v", "known", "new");
  body.node("Mul", "new", "beta", "written");
  body.node("Mul", "written", "k_row", "added");
  body.node("Add", "kept", "added", "left");
  body.node("MatMul", "left", "q", "y");
  return around.scan({{"decay", decay},
                      {"v", around.column(around.f32(0))},
                      {"beta", around.of_heads(around.f32(2), 2)},
                      {"k", around.of_groups(3, false)},
                      {"k_row", around.of_groups(3, true)},
                      {"q", around.of_groups(4, false)}},
                     std::move(body));
}

constexpr LoweringEntry kRecurrenceEntries[] = {{"selective_scan", selective_scan},
                                                {"gated_delta_rule", gated_delta_rule}};

}  // namespace

std::span<const LoweringEntry> recurrence_lowerings() { return kRecurrenceEntries; }

}  // namespace transom::onnx
