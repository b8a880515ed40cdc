// SPDX-License-Identifier: Apache-2.0
#include "files/original/original_tensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"

namespace transom {
namespace {

using Change = OriginalModule::Change;

// [first, first + count) of the first axis; where they are dense they lie in the file as they are.
TensorView some_rows(const TensorView& view, int64_t first, int64_t count) {
  TensorView part = view;
  const size_t row = view.bytes.size() / static_cast<size_t>(view.shape[0]);
  part.shape[0] = count;
  part.bytes = view.bytes.subspan(static_cast<size_t>(first) * row, static_cast<size_t>(count) * row);
  return part;
}

TensorView halves_swapped(const TensorView& view) {
  const std::shared_ptr<std::byte[]> bytes(new std::byte[view.bytes.size()]);
  const size_t half = view.bytes.size() / 2;
  std::memcpy(bytes.get(), view.bytes.data() + half, half);
  std::memcpy(bytes.get() + half, view.bytes.data(), half);
  return {view.dtype, view.shape, {bytes.get(), view.bytes.size()}, bytes};
}

TensorView turned_over(const TensorView& view) {
  const size_t size = size_of(view.dtype), rows = static_cast<size_t>(view.shape[0]),
               columns = static_cast<size_t>(view.shape[1]);
  const std::shared_ptr<std::byte[]> bytes(new std::byte[view.bytes.size()]);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j)
      std::memcpy(bytes.get() + (j * rows + i) * size, view.bytes.data() + (i * columns + j) * size, size);
  return {view.dtype, {view.shape[1], view.shape[0]}, {bytes.get(), view.bytes.size()}, bytes};
}

TensorView changed_view(TensorView view, Change change, const std::string& where) {
  switch (change) {
    case Change::kNone:
      return view;
    case Change::kHalvesSwapped:
      if (view.shape[0] % 2 != 0) fail("{}: expected two halves of rows, found {} rows", where, view.shape[0]);
      return halves_swapped(view);
    case Change::kTransposed:
      if (view.shape.size() != 2) fail("{}: expected a matrix, found {} axes", where, view.shape.size());
      return turned_over(view);
    case Change::kMatrix:
      while (view.shape.size() > 2 && view.shape.back() == 1) view.shape.pop_back();
      return view;
  }
  return view;
}

std::shared_ptr<const BlockMatrix> changed_matrix(std::shared_ptr<const BlockMatrix> matrix, const OriginalModule& rule,
                                                  const std::string& where) {
  const int64_t all = matrix->layout().rows, count = rule.rows > 0 ? rule.rows : all;
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), rule.first_row);
  switch (rule.change) {
    case Change::kNone:
    case Change::kMatrix:
      return count == all ? matrix : rows_of(std::move(matrix), std::move(rows));
    case Change::kHalvesSwapped:
      if (count % 2 != 0) fail("{}: expected two halves of rows, found {} rows", where, count);
      std::rotate(rows.begin(), rows.begin() + count / 2, rows.end());
      return rows_of(std::move(matrix), std::move(rows));
    case Change::kTransposed:
      break;
  }
  fail("{}: is in codes, of which rows cannot become columns; expected plain numbers", where);
}

// Rules that each take a part of a tensor take all of it together.
void check_rows(const std::vector<OriginalModule>& rules, const OriginalTensor& tensor, const std::string& where) {
  const int64_t rows = tensor.matrix               ? tensor.matrix->layout().rows
                       : tensor.view.shape.empty() ? 0
                                                   : tensor.view.shape[0];
  int64_t taken = 0;
  for (const OriginalModule& rule : rules) taken += rule.rows;
  if (taken > 0 && taken != rows) fail("{}: expected {} rows, as config.json says, found {}", where, taken, rows);
}

}  // namespace

OriginalNames::OriginalNames(std::vector<OriginalModule> names) {
  for (OriginalModule& name : names) {
    std::string original = name.original;
    rules_[std::move(original)].push_back(std::move(name));
  }
}

void OriginalNames::add(Checkpoint& checkpoint, const std::string& name, const OriginalTensor& tensor) const {
  auto found = rules_.find(name);
  std::string rest;
  for (size_t end = name.size(); found == rules_.end() && (end = name.rfind('.', end - 1)) != name.npos && end > 0;)
    found = rules_.find(std::string_view(name).substr(0, end)), rest = name.substr(end);
  if (found == rules_.end()) {
    if (tensor.matrix) checkpoint.add_compressed(name, {tensor.matrix});
    else checkpoint.add(name, tensor.view);
    return;
  }
  const std::string where = fmt::format("{}: tensor {}", checkpoint.where(), quoted(name));
  check_rows(found->second, tensor, where);
  for (const OriginalModule& rule : found->second) {
    if (rule.name.empty()) continue;
    if (tensor.matrix) {
      checkpoint.add_compressed(rule.name + rest, {changed_matrix(tensor.matrix, rule, where)});
      continue;
    }
    if (tensor.view.shape.empty() && (rule.rows > 0 || rule.change != Change::kNone))
      fail("{}: expected rows, found a number", where);
    TensorView view = rule.rows > 0 ? some_rows(tensor.view, rule.first_row, rule.rows) : tensor.view;
    checkpoint.add(rule.name + rest, changed_view(std::move(view), rule.change, where));
  }
}

}  // namespace transom
