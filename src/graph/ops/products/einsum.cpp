// SPDX-License-Identifier: Apache-2.0
// Einstein summation as NumPy writes it: products of two terms at a time, from the left; what neither the result nor a
// later term needs is summed at once.
#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <string>

#include "base/error.h"
#include "graph/ir/node.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Letters = std::string;

struct SummedTerm {
  Tensor x;
  Letters letters;
};

[[noreturn]] void refuse_equation(std::string_view equation, const std::string& why) {
  fail("{}einsum: '{}': {}", scope_prefix(), equation, why);
}

// "..." becomes as many digits as it has axes, the last being '9': they stand before all letters. rank -1: none given.
Letters letters_of_term(std::string_view equation, const std::string& term, int64_t rank) {
  Letters letters;
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      letters += term[i];
    } else if (term.compare(i, 3, "...") == 0 && letters.find('.') == letters.npos) {
      letters += '.', i += 2;
    } else if (term[i] != ' ') {
      refuse_equation(equation, "expected letters, commas, one '...' a term and '->'");
    }
  }
  const size_t dots = letters.find('.');
  const int64_t axes = rank - static_cast<int64_t>(letters.size()) + (dots == letters.npos ? 0 : 1);
  if (dots == letters.npos && (rank < 0 || axes == 0)) return letters;
  if (dots == letters.npos || axes < 0 || axes > 10)
    refuse_equation(equation, "the term '" + term + "' does not fit a tensor of " + std::to_string(rank) + " axes");
  Letters names;
  for (int64_t i = 0; i < axes; ++i) names += static_cast<char>('0' + (10 - axes + i));
  return letters.replace(dots, 1, names);
}

// An axis that comes twice becomes its diagonal: both, side by side, are one axis of n^2 places, of which each n + 1st
// is taken.
void take_diagonals(SummedTerm& term) {
  for (size_t i = 0; i < term.letters.size(); ++i)
    for (size_t j = i + 1; j < term.letters.size(); ++j) {
      if (term.letters[i] != term.letters[j]) continue;
      const auto first = static_cast<int64_t>(i);
      Axes order(term.letters.size());
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

void sum_out(SummedTerm& term, const Letters& kept) {
  Axes axes;
  Letters left;
  for (size_t i = 0; i < term.letters.size(); ++i) {
    if (kept.find(term.letters[i]) == Letters::npos) axes.push_back(static_cast<int64_t>(i));
    else left += term.letters[i];
  }
  if (!axes.empty()) term.x = reduce_sum(term.x, axes);
  term.letters = left;
}

SummedTerm product_of_terms(const SummedTerm& x, const SummedTerm& y, const Letters& kept, const Computing& computing) {
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
void spread_terms(std::string_view equation, std::vector<SummedTerm>& terms) {
  std::map<char, int64_t> extents;
  for (const SummedTerm& term : terms)
    for (size_t i = 0; i < term.letters.size(); ++i) {
      int64_t& extent = extents.emplace(term.letters[i], 1).first->second;
      const int64_t here = term.x.shape()[i];
      if (extent != 1 && here != 1 && extent != here)
        refuse_equation(equation,
                        "an index has the extents " + std::to_string(extent) + " and " + std::to_string(here));
      if (here != 1) extent = here;
    }
  for (SummedTerm& term : terms) {
    Shape shape;
    for (const char letter : term.letters) shape.push_back(extents.at(letter));
    term.x = broadcast_to(term.x, shape);
  }
}

std::vector<SummedTerm> terms_of(std::string_view equation, const std::string& left,
                                 const std::vector<Tensor>& operands) {
  if (operands.empty()) refuse_equation(equation, "expected at least one tensor");
  std::vector<SummedTerm> terms;
  size_t begin = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const size_t comma = left.find(',', begin);
    if ((comma == left.npos) != (i + 1 == operands.size()))
      refuse_equation(equation,
                      "it has another number of terms than the " + std::to_string(operands.size()) + " tensors");
    terms.push_back({operands[i], letters_of_term(equation, left.substr(begin, comma - begin), operands[i].rank())});
    begin = comma + 1;
  }
  return terms;
}

// The indices of the result: as written behind the arrow, or those of "..." and those that come once, in order.
Letters letters_of_result(std::string_view equation, const std::vector<SummedTerm>& terms) {
  std::map<char, int> counts;  // of each index in all terms: twice in one is twice
  int64_t most_dots = 0;
  for (const SummedTerm& term : terms)
    for (const char letter : term.letters) {
      ++counts[letter];
      if (letter <= '9') most_dots = std::max<int64_t>(most_dots, 10 - (letter - '0'));
    }
  Letters result;
  if (const size_t arrow = equation.find("->"); arrow != equation.npos) {
    std::string right(equation.substr(arrow + 2));
    right.erase(std::remove(right.begin(), right.end(), ' '), right.end());
    const bool dots = right.find("...") != right.npos;
    result = letters_of_term(equation, right, dots ? static_cast<int64_t>(right.size()) - 3 + most_dots : -1);
  } else {
    for (const auto& [letter, count] : counts)
      if (letter <= '9' || count == 1) result += letter;
  }
  for (size_t i = 0; i < result.size(); ++i) {
    if (!counts.contains(result[i])) refuse_equation(equation, "the result has an index of no term");
    if (result.find(result[i], i + 1) != result.npos) refuse_equation(equation, "an index comes twice in the result");
  }
  return result;
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, const Computing& computing) {
  std::vector<SummedTerm> terms = terms_of(equation, std::string(equation.substr(0, equation.find("->"))), operands);
  const Letters result = letters_of_result(equation, terms);
  spread_terms(equation, terms);
  for (SummedTerm& term : terms) take_diagonals(term);
  SummedTerm joined = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    Letters later = result;
    for (size_t j = i + 1; j < terms.size(); ++j) later += terms[j].letters;
    sum_out(joined, later + terms[i].letters);
    sum_out(terms[i], later + joined.letters);
    joined = product_of_terms(joined, terms[i], later, computing);
  }
  sum_out(joined, result);
  Axes permutation;
  for (const char letter : result) permutation.push_back(static_cast<int64_t>(joined.letters.find(letter)));
  return permute(joined.x, permutation);
}

}  // namespace transom
