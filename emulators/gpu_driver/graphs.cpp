// SPDX-License-Identifier: Apache-2.0
#include "graphs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "numbers.h"

namespace emulator::graphs {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 40;

bool is_half(int element) { return element == kF16 || element == kBf16; }

int64_t size_of(int element) { return is_half(element) ? 2 : element == kBool ? 1 : 4; }

// What holds a tensor's numbers while a graph runs, dense.
using Numbers = std::vector<float>;

float rounded(int element, float value) {
  if (!is_half(element)) return value;
  const NumberKind kind = element == kF16 ? NumberKind::kF16 : NumberKind::kBf16;
  uint16_t half = 0;
  write_number(kind, &half, 0, value);
  return read_number(kind, &half, 0);
}

float read(const Tensor& tensor, const void* memory, int64_t place) {
  if (tensor.element == kI32) return static_cast<float>(static_cast<const int32_t*>(memory)[place]);
  const NumberKind kind = tensor.element == kF16    ? NumberKind::kF16
                          : tensor.element == kBf16 ? NumberKind::kBf16
                                                    : NumberKind::kF32;
  return read_number(kind, memory, place);
}

// Indices of a dense place, and the place of indices in a tensor that may be shorter along some axes: one element
// serves all there, and a head serves as many as there are for each of its own.
struct Places {
  const std::vector<int64_t>& extents;
  std::vector<int64_t> of(int64_t place) const {
    std::vector<int64_t> index(extents.size());
    for (size_t i = extents.size(); i-- > 0;) index[i] = place % extents[i], place /= extents[i];
    return index;
  }
  int64_t in(const Tensor& other, const std::vector<int64_t>& index) const {
    int64_t place = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      const int64_t mine = other.extents[i], all = extents[i];
      place = place * mine + (mine == all ? index[i] : mine == 1 ? 0 : index[i] / (all / mine));
    }
    return place;
  }
};

bool broadcasts(const Tensor& from, const Tensor& to) {
  if (from.extents.size() != to.extents.size()) return false;
  for (size_t i = 0; i < to.extents.size(); ++i)
    if (from.extents[i] != to.extents[i] && from.extents[i] != 1) return false;
  return true;
}

std::string name(const Tensor& tensor) { return "tensor " + std::to_string(tensor.id); }

std::string fault_of_product(const Operation& op) {
  const Tensor &a = *op.x, &b = *op.b, &c = *op.y;
  const size_t rank = a.extents.size();
  if (rank < 3 || b.extents.size() != rank || c.extents.size() != rank) return "a product's tensors differ in rank";
  const size_t row = rank - 2, column = rank - 1;
  if (a.extents[column] != b.extents[row] || c.extents[row] != a.extents[row] || c.extents[column] != b.extents[column])
    return "a product of extents that do not meet";
  for (size_t i = 0; i < row; ++i)
    if (c.extents[i] != a.extents[i] || c.extents[i] % b.extents[i] != 0) return "a product of other batches";
  if (a.element != b.element && !(a.element == kF32 || b.element == kF32)) return "a product of two types";
  return op.computed == kF32 ? "" : "a product's sums are of f32";
}

std::string fault_of_pointwise(const Operation& op) {
  if (!broadcasts(*op.x, *op.y) && op.mode != kIndex) return "x has other extents than y";
  if (op.b && !broadcasts(*op.b, *op.y)) return "b has other extents than y";
  switch (op.mode) {
    case kExp:
    case kLog:
      return op.b || op.t ? "one operand was expected" : "";
    case kIndex:
      if (op.axis < 0 || op.axis >= static_cast<int64_t>(op.y->extents.size())) return "the axis of an index";
      return op.computed == kI32 && op.y->element == kI32 ? "" : "an index is of i32";
    case kAtLeast:
      return !op.b                                            ? "two operands were expected"
             : op.computed == kBool && op.y->element == kBool ? ""
                                                              : "a comparison is boolean";
    case kSelect:
      if (!op.b || !op.t) return "a choice of two by a third was expected";
      return op.t->element == kBool && broadcasts(*op.t, *op.y) ? "" : "what chooses is boolean";
    case kAdd:
    case kMultiply:
    case kMax:
    case kDivide:
    case kSubtract:
      return op.b && !op.t ? "" : "two operands were expected";
    default:
      return "pointwise mode " + std::to_string(op.mode);
  }
}

float applied(const Operation& op, float x, float b, float t) {
  switch (op.mode) {
    case kAdd:
      return x + b;
    case kMultiply:
      return x * b;
    case kMax:
      return std::max(x, b);
    case kDivide:
      return x / b;
    case kSubtract:
      return x - b;
    case kExp:
      return std::exp(x);
    case kLog:
      return std::log(x);
    case kAtLeast:
      return x >= b ? 1.0f : 0.0f;
    default:
      return t != 0 ? x : b;  // kSelect
  }
}

void multiply(const Operation& op, const Numbers& a, const Numbers& b, Numbers& to) {
  const Places places{op.y->extents};
  const size_t rank = op.y->extents.size();
  const int64_t depth = op.x->extents[rank - 1];
  for (int64_t i = 0; i < op.y->count(); ++i) {
    const std::vector<int64_t> index = places.of(i);
    int64_t batch_a = 0, batch_b = 0;
    for (size_t k = 0; k + 2 < rank; ++k) {
      batch_a = batch_a * op.x->extents[k] + index[k];
      batch_b = batch_b * op.b->extents[k] + index[k] / (op.y->extents[k] / op.b->extents[k]);
    }
    float sum = 0;
    const int64_t from_a = (batch_a * op.x->extents[rank - 2] + index[rank - 2]) * depth;
    for (int64_t k = 0; k < depth; ++k)
      sum = std::fmaf(a[static_cast<size_t>(from_a + k)],
                      b[static_cast<size_t>((batch_b * depth + k) * op.b->extents[rank - 1] + index[rank - 1])], sum);
    to[static_cast<size_t>(i)] = rounded(op.y->element, sum);
  }
}

// From the first element to the place of each in memory that both are views of.
std::vector<int64_t> offsets_of(const Tensor& tensor) {
  const Places places{tensor.extents};
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const std::vector<int64_t> index = places.of(i);
    int64_t offset = 0;
    for (size_t k = 0; k < index.size(); ++k) offset += index[k] * tensor.strides[k];
    offsets.push_back(offset);
  }
  return offsets;
}

void reshape(const Operation& op, const Numbers& x, Numbers& to) {
  std::map<int64_t, float> memory;
  const std::vector<int64_t> from = offsets_of(*op.x), at = offsets_of(*op.y);
  for (size_t i = 0; i < from.size(); ++i) memory[from[i]] = x[i];
  for (size_t i = 0; i < at.size(); ++i) to[i] = rounded(op.y->element, memory.at(at[i]));
}

std::string fault_of_reshape(const Operation& op) {
  if (op.x->count() != op.y->count()) return "a reshape to another number of elements";
  std::vector<int64_t> from = offsets_of(*op.x), to = offsets_of(*op.y);
  std::sort(from.begin(), from.end()), std::sort(to.begin(), to.end());
  return from == to ? "" : "a reshape to other memory";
}

void reduce(const Operation& op, const Numbers& x, Numbers& to) {
  std::fill(to.begin(), to.end(), op.mode == kSum ? 0.0f : -std::numeric_limits<float>::infinity());
  const Places places{op.x->extents};
  for (int64_t i = 0; i < op.x->count(); ++i) {
    float& one = to[static_cast<size_t>(places.in(*op.y, places.of(i)))];
    const float value = x[static_cast<size_t>(i)];
    one = op.mode == kSum ? one + value : std::max(one, value);
  }
  for (float& one : to) one = rounded(op.y->element, one);
}

}  // namespace

int64_t Tensor::count() const {
  int64_t all = 1;
  for (const int64_t extent : extents) all *= extent;
  return all;
}

int64_t Tensor::bytes() const {
  int64_t last = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    last += (extents[i] - 1) * strides[i];
    if (last > kMostBytes) return kMostBytes;
  }
  return (last + 1) * size_of(element);
}

std::string Operation::fault() const {
  if (!x || !y || (kind == kMatmul && !b)) return "an operation without all of its tensors";
  if (kind == kMatmul) return fault_of_product(*this);
  if (kind == kPointwise) return fault_of_pointwise(*this);
  if (kind == kReshape) return fault_of_reshape(*this);
  if (mode != kSum && mode != kLargest) return "reduction " + std::to_string(mode);
  if (x->extents.size() != y->extents.size()) return "a reduction to another rank";
  for (size_t i = 0; i < x->extents.size(); ++i)
    if (x->extents[i] % y->extents[i] != 0) return "a reduction to extents that are no share of all";
  return computed == kF32 ? "" : "a reduction's sums are of f32";
}

std::string Graph::fault() {
  std::set<int64_t> made, read;
  std::map<int64_t, std::shared_ptr<const Tensor>> all;
  for (const Operation& op : operations) {
    for (const auto& tensor : {op.x, op.b, op.t, op.y}) {
      if (!tensor) continue;
      const auto [place, added] = all.emplace(tensor->id, tensor);
      if (!added && place->second != tensor) return name(*tensor) + ": two descriptors have one id";
      if (!tensor->inside) outside[tensor->id] = tensor;
    }
    for (const auto& tensor : {op.x, op.b, op.t}) {
      if (!tensor) continue;
      if (tensor->inside && !made.contains(tensor->id))
        return name(*tensor) + " is virtual, and nothing makes it before it is read";
      read.insert(tensor->id);
    }
    if (op.y->by_value) return name(*op.y) + " is made, and passed by value";
    if (!made.insert(op.y->id).second) return name(*op.y) + " is made twice";
  }
  for (const int64_t id : made) {
    if (all.at(id)->inside && !read.contains(id)) return name(*all.at(id)) + " is virtual, and nobody reads it";
  }
  return operations.empty() ? "a graph without operations" : "";
}

namespace {

// Empty if the operands are of one 16-bit type, and their heads are 64 or 128 wide and lie together along `axis`.
struct Operand {
  const Tensor& tensor;
  size_t axis;
};
std::string refusal_of(std::initializer_list<Operand> operands) {
  const Tensor& first = operands.begin()->tensor;
  if (first.extents.size() != 4) return "tensors of four extents were expected";
  const int64_t width = first.extents[3];
  if (width != 64 && width != 128) return "heads of 64 or 128";
  for (const auto& [one, axis] : operands) {
    if (one.inside || !is_half(one.element) || one.element != first.element) return "operands of one 16-bit type";
    if (one.extents[axis] != width) return "heads of 64 or 128";
    if (one.strides[axis] != 1) return "the elements of a head lie together";
  }
  return "";
}

std::string refusal_of_attention(const std::vector<const Operation*>& products, bool has_log) {
  if (!has_log) return "Dropout set of ops not configured";  // cuDNN 9.19's words where the statistics are not kept
  const Operation &scores = *products[0], &mixed = *products[1];
  if (scores.y->element != kF32 || mixed.x->element != scores.x->element)
    return "scores of f32, and weights of the operands' type";
  return refusal_of({{*scores.x, 3}, {*scores.b, 2}, {*mixed.b, 3}, {*mixed.y, 3}});
}

// q k, turned weights by dout, dout v, turned dscores by q, dscores by k; the results of the second and fourth may be
// summed over heads.
std::string refusal_of_gradient(const std::vector<const Operation*>& products) {
  const Operation &scores = *products[0], &dv = *products[1], &dweights = *products[2], &dk = *products[3];
  if (scores.y->element != kF32 || dweights.y->element != kF32) return "scores of f32";
  if (dv.b != dweights.x || dk.b != scores.x || products[4]->y->inside) return "no pattern of an engine";
  return refusal_of({{*scores.x, 3}, {*scores.b, 2}, {*dweights.x, 3}, {*dweights.b, 2}});
}

}  // namespace

std::string Graph::refusal() const {
  std::vector<const Operation*> products;
  size_t reductions = 0;
  bool has_exp = false, has_log = false, reads_first = false;
  for (const Operation& op : operations) {
    if (op.kind == Operation::kMatmul) products.push_back(&op);
    if (op.kind == Operation::kReduction) ++reductions;
    has_exp |= op.kind == Operation::kPointwise && op.mode == kExp;
    has_log |= op.kind == Operation::kPointwise && op.mode == kLog;
    reads_first |= op.kind == Operation::kPointwise && !op.x->inside;
  }
  const bool forward = products.size() == 2 && reductions == 2, gradient = products.size() == 5 && reductions > 0;
  if (!has_exp || (!forward && !gradient)) return "no pattern of an engine";
  if (forward && reads_first) return "in_ports[0].first.isVirtual != true";  // 9.19's words
  const std::string refusal = forward ? refusal_of_attention(products, has_log) : refusal_of_gradient(products);
  if (!refusal.empty()) return refusal;
  for (const auto& [id, tensor] : outside)
    if (!is_half(tensor->element) && tensor->element != kF32) return "scale, statistics and sums of f32";
  return "";
}

bool Graph::repeats() const {
  std::vector<const Operation*> products;
  for (const Operation& op : operations)
    if (op.kind == Operation::kMatmul) products.push_back(&op);
  return products.size() != 5 || is_half(products.back()->y->element);
}

void Graph::compute(const std::map<int64_t, void*>& memory, bool varies) const {
  std::map<int64_t, Numbers> numbers;
  const auto of = [&](const std::shared_ptr<const Tensor>& tensor) -> Numbers& {
    Numbers& held = numbers[tensor->id];
    if (!held.empty()) return held;
    held.resize(static_cast<size_t>(tensor->count()));
    if (tensor->inside) return held;
    const Places places{tensor->extents};
    for (int64_t i = 0; i < tensor->count(); ++i) {
      const std::vector<int64_t> index = places.of(i);
      int64_t place = 0;
      for (size_t k = 0; k < index.size(); ++k) place += index[k] * tensor->strides[k];
      held[static_cast<size_t>(i)] = read(*tensor, memory.at(tensor->id), place);
    }
    return held;
  };
  static int runs = 0;
  for (const Operation& op : operations) {
    Numbers& to = numbers[op.y->id];
    to.assign(static_cast<size_t>(op.y->count()), 0.0f);
    const Places places{op.y->extents};
    if (op.kind == Operation::kMatmul) {
      multiply(op, of(op.x), of(op.b), to);
    } else if (op.kind == Operation::kReduction) {
      reduce(op, of(op.x), to);
    } else if (op.kind == Operation::kReshape) {
      reshape(op, of(op.x), to);
    } else if (op.mode == kIndex) {
      for (int64_t i = 0; i < op.y->count(); ++i)
        to[static_cast<size_t>(i)] = static_cast<float>(places.of(i)[static_cast<size_t>(op.axis)]);
    } else {
      const Numbers& x = of(op.x);
      const Numbers* const b = op.b ? &of(op.b) : nullptr;
      const Numbers* const t = op.t ? &of(op.t) : nullptr;
      for (int64_t i = 0; i < op.y->count(); ++i) {
        const std::vector<int64_t> index = places.of(i);
        const auto at = [&](const Numbers* from, const std::shared_ptr<const Tensor>& tensor) {
          return from ? (*from)[static_cast<size_t>(places.in(*tensor, index))] : 0.0f;
        };
        to[static_cast<size_t>(i)] = rounded(op.y->element, applied(op, at(&x, op.x), at(b, op.b), at(t, op.t)));
      }
    }
    if (op.y->inside) continue;
    if (varies && op.kind == Operation::kMatmul) to[0] += static_cast<float>(++runs);
    for (int64_t i = 0; i < op.y->count(); ++i) {
      const std::vector<int64_t> index = places.of(i);
      int64_t place = 0;
      for (size_t k = 0; k < index.size(); ++k) place += index[k] * op.y->strides[k];
      write_number(op.y->element == kF16    ? NumberKind::kF16
                   : op.y->element == kBf16 ? NumberKind::kBf16
                                            : NumberKind::kF32,
                   memory.at(op.y->id), place, to[static_cast<size_t>(i)]);
    }
  }
}

}  // namespace emulator::graphs
