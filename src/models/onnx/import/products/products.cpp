// SPDX-License-Identifier: Apache-2.0
// Matrix products: MatMul, Gemm, Einsum, Det.
#include <algorithm>
#include <map>
#include <numeric>

#include "graph/ir/node.h"
#include "graph/ops/records.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

// W, where a matrix is W transposed: the product reads W as it lies, and no copy is made at each run. Heads that share
// the table of the embeddings are written so.
const Tensor* source_of_transposed(const Tensor& y) {
  const transom::Node& node = *y.node();
  if (y.rank() != 2 || node.operation != &op::permute || node.inputs.empty()) return nullptr;
  return node.attributes.get_ints("permutation") == std::vector<int64_t>{1, 0} ? &node.inputs[0] : nullptr;
}

Results matmul_operator(Call& call) {
  const Tensor &x = call.tensor(0), &y = call.tensor(1);
  call.require(x.rank() >= 1 && y.rank() >= 1, "expected tensors of rank 1 or more");
  if (const Tensor* source = source_of_transposed(y); source && x.rank() >= 2)
    return {call.like(0, dot_general(x, *source, {{}, {}, {x.rank() - 1}, {1}}, call.computing()))};
  // One matrix for all rows, as weights are: a product without batches, not one for each batch.
  if (x.rank() > 2 && y.rank() == 2)
    return {call.like(0, dot_general(x, y, {{}, {}, {x.rank() - 1}, {0}}, call.computing()))};
  Tensor product = matmul(x.rank() == 1 ? unsqueeze(x, 0) : x, y.rank() == 1 ? unsqueeze(y, 1) : y, call.computing());
  if (y.rank() == 1) product = squeeze(product, -1);
  if (x.rank() == 1) product = squeeze(product, y.rank() == 1 ? -1 : -2);
  return {call.like(0, product)};
}

Results gemm(Call& call) {
  Tensor a = call.tensor(0), b = call.tensor(1);
  call.require(a.rank() == 2 && b.rank() == 2, "expected matrices");
  const bool turned = call.integer("transB", 0) != 0;
  if (call.integer("transA", 0) != 0) a = transpose(a, 0, 1);
  const double alpha = call.number("alpha", 1), beta = call.number("beta", 1);
  const bool floats = is_floating(call.type(0));
  if (floats && alpha == 1 && beta == 1 && turned && call.has(2) && call.shape(2) == Shape{b.dim(0)})
    return {call.like(0, linear(a, b, call.tensor(2), call.computing()))};
  Tensor product = turned ? dot_general(a, b, {{}, {}, {1}, {1}}, call.computing()) : matmul(a, b, call.computing());
  if (alpha != 1) product = floats ? product * alpha : cast(cast(product, DType::kFloat64) * alpha, product.dtype());
  if (!call.has(2) || beta == 0) return {call.like(0, product)};
  Tensor c = call.tensor(2);
  if (beta != 1) c = floats ? c * beta : cast(cast(c, DType::kFloat64) * beta, c.dtype());
  return {call.like(0, add(product, c))};
}

// ---- Einsum

using Letters = std::string;

// "..." becomes as many digits as it has axes, the last being '9': they stand before all letters.
Letters letters_of(const Call& call, std::string term, int64_t rank) {
  term.erase(std::remove(term.begin(), term.end(), ' '), term.end());
  const size_t dots = term.find("...");
  if (dots == std::string::npos) {
    if (rank >= 0) call.require(static_cast<int64_t>(term.size()) == rank, "a term does not fit its tensor");
    return term;
  }
  const int64_t axes = rank - static_cast<int64_t>(term.size()) + 3;
  call.require(axes >= 0 && axes <= 10, "a term does not fit its tensor");
  Letters names;
  for (int64_t i = 0; i < axes; ++i) names += static_cast<char>('0' + (10 - axes + i));
  return term.substr(0, dots) + names + term.substr(dots + 3);
}

struct Term {
  Tensor x;
  Letters letters;
};

// An axis that comes twice becomes its diagonal: both, side by side, are one axis of n^2 places, of which each n + 1st
// is taken.
void take_diagonals(Term& term) {
  for (size_t i = 0; i < term.letters.size(); ++i)
    for (size_t j = i + 1; j < term.letters.size(); ++j) {
      if (term.letters[i] != term.letters[j]) continue;
      const auto first = static_cast<int64_t>(i);
      std::vector<int64_t> order(term.letters.size());
      std::iota(order.begin(), order.end(), int64_t{0});
      std::rotate(order.begin() + first + 1, order.begin() + static_cast<ptrdiff_t>(j),
                  order.begin() + static_cast<ptrdiff_t>(j) + 1);
      const int64_t n = term.x.dim(first);
      Shape joined = term.x.shape();
      joined.erase(joined.begin() + static_cast<ptrdiff_t>(j));
      joined[i] = n * n;
      term.x = slice(reshape(permute(term.x, order), joined), first, 0, n * n, n + 1);
      term.letters.erase(j--, 1);
    }
}

void sum_out(Term& term, const Letters& kept) {
  std::vector<int64_t> axes;
  Letters left;
  for (size_t i = 0; i < term.letters.size(); ++i) {
    if (kept.find(term.letters[i]) == Letters::npos) axes.push_back(static_cast<int64_t>(i));
    else left += term.letters[i];
  }
  if (!axes.empty()) term.x = reduce_sum(term.x, axes);
  term.letters = left;
}

Term product(const Term& x, const Term& y, const Letters& kept, const Computing& computing) {
  DotAxes axes;
  Letters batch, x_free, y_free;
  for (size_t i = 0; i < x.letters.size(); ++i) {
    const char letter = x.letters[i];
    const size_t j = y.letters.find(letter);
    if (j == Letters::npos) {
      x_free += letter;
    } else if (kept.find(letter) != Letters::npos) {
      axes.x_batch.push_back(static_cast<int64_t>(i)), axes.y_batch.push_back(static_cast<int64_t>(j));
      batch += letter;
    } else {
      axes.x_contract.push_back(static_cast<int64_t>(i)), axes.y_contract.push_back(static_cast<int64_t>(j));
    }
  }
  for (const char letter : y.letters)
    if (x.letters.find(letter) == Letters::npos) y_free += letter;
  return {dot_general(x.x, y.x, axes, computing), batch + x_free + y_free};
}

// Extents of 1 broadcast, as those of "..." may.
void spread_terms(std::vector<Term>& terms, const Call& call) {
  std::map<char, int64_t> extents;
  for (const Term& term : terms)
    for (size_t i = 0; i < term.letters.size(); ++i) {
      int64_t& extent = extents.emplace(term.letters[i], 1).first->second;
      const int64_t here = term.x.shape()[i];
      call.require(extent == 1 || here == 1 || extent == here, "an index has two extents");
      if (here != 1) extent = here;
    }
  for (Term& term : terms) {
    Shape shape;
    for (const char letter : term.letters) shape.push_back(extents.at(letter));
    term.x = broadcast_to(term.x, shape);
  }
}

Results einsum(Call& call) {
  const std::string equation = call.text("equation", "");
  const size_t arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow);
  std::vector<Term> terms;
  size_t begin = 0;
  for (size_t i = 0; i < call.inputs(); ++i) {
    const size_t comma = left.find(',', begin);
    call.require((comma == std::string::npos) == (i + 1 == call.inputs()), "the equation has another number of terms");
    terms.push_back({call.tensor(i), letters_of(call, left.substr(begin, comma - begin), call.tensor(i).rank())});
    begin = comma + 1;
  }
  call.require(!terms.empty(), "it has no inputs");
  const DType dtype = terms[0].x.dtype();
  std::map<char, int> counts;  // of each index in all terms: twice in one is twice
  int64_t most_dots = 0;
  for (const Term& term : terms)
    for (const char letter : term.letters) {
      ++counts[letter];
      if (letter <= '9') most_dots = std::max<int64_t>(most_dots, 10 - (letter - '0'));
    }
  Letters result;
  if (arrow != std::string::npos) {
    std::string right = equation.substr(arrow + 2);
    right.erase(std::remove(right.begin(), right.end(), ' '), right.end());
    const bool dots = right.find("...") != std::string::npos;
    result = letters_of(call, right, dots ? static_cast<int64_t>(right.size()) - 3 + most_dots : -1);
  } else {  // the indices of "...", then those that come once, in order of the alphabet
    for (const auto& [letter, count] : counts)
      if (letter <= '9' || count == 1) result += letter;
  }
  for (const char letter : result) call.require(counts.contains(letter), "the result has an index of no input");
  spread_terms(terms, call);
  for (Term& term : terms) {
    term.x = wide(term.x);
    take_diagonals(term);
  }
  Term joined = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    // What neither the result nor a later term needs is summed at once.
    Letters later = result;
    for (size_t j = i + 1; j < terms.size(); ++j) later += terms[j].letters;
    sum_out(joined, later + terms[i].letters);
    sum_out(terms[i], later + joined.letters);
    joined = product(joined, terms[i], later, call.computing());
  }
  sum_out(joined, result);
  std::vector<int64_t> permutation;
  for (const char letter : result) permutation.push_back(static_cast<int64_t>(joined.letters.find(letter)));
  call.require(permutation.size() == joined.letters.size(), "an index comes twice in the result");
  return {call.like(0, cast(permute(joined.x, permutation), dtype))};
}

// By elimination with the largest pivot of each column.
Results determinant(Call& call) {
  Tensor x = wide(call.tensor(0));
  const int64_t n = x.rank() >= 2 ? x.dim(-1) : 0;
  call.require(n > 0 && x.dim(-2) == n, "expected square matrices");
  if (n > 64) call.not_supported("matrices of more than 64 rows");
  const Shape batch(x.shape().begin(), x.shape().end() - 2);
  const int64_t B = elements(batch);
  x = reshape(x, {B, n, n});
  Tensor result = broadcast_to(constant(1, x.dtype()), {B});
  for (int64_t k = 0; k < n; ++k) {
    const int64_t left = n - k;
    // The pivot's row changes places with the first one; a swap turns the sign.
    const Tensor place = arg_max(abs(squeeze(slice(x, 2, 0, 1), 2)), 1);  // [B]
    const Tensor row = iota({B, left}, 1), pivot = reshape(place, {B, 1});
    const Tensor from = select(equal(row, integer(0)), pivot, select(equal(row, pivot), integer(0), row));
    x = take_along_axis(x, broadcast_to(reshape(from, {B, left, 1}), {B, left, left}), 1);
    const Tensor head = reshape(slice(slice(x, 1, 0, 1), 2, 0, 1), {B});
    result = mul(result, select(equal(place, integer(0)), head, neg(head)));
    if (left == 1) break;
    const Tensor zero = constant(0, x.dtype());
    const Tensor divisor = reshape(select(equal(head, zero), constant(1, x.dtype()), head), {B, 1, 1});
    const Tensor factors = div(slice(slice(x, 1, 1, left), 2, 0, 1), divisor);
    x = sub(slice(slice(x, 1, 1, left), 2, 1, left), mul(factors, slice(slice(x, 1, 0, 1), 2, 1, left)));
  }
  return {call.like(0, cast(reshape(result, batch), call.tensor(0).dtype()))};
}

}  // namespace

const RegisterOperators kProducts = {
    {"MatMul", matmul_operator}, {"Gemm", gemm}, {"Einsum", einsum, 12}, {"Det", determinant, 11}};

}  // namespace transom::onnx
