// SPDX-License-Identifier: Apache-2.0
// The first columns of a QR decomposition need reflections of these columns alone.
#include "models/loading/adapters/initial/decompositions.h"

#include <cmath>

namespace transom {
namespace {

// A column of f64, and x - scale (v . x) v from place `begin` on.
using Column = std::vector<double>;
void reflect(Column& x, const Column& v, double scale, size_t begin) {
  double product = 0;
  for (size_t i = begin; i < x.size(); ++i) product += v[i] * x[i];
  for (size_t i = begin; i < x.size(); ++i) x[i] -= scale * product * v[i];
}

}  // namespace

PartOfQr part_of_qr(const std::vector<float>& matrix, int64_t rows, int64_t columns, int64_t rank) {
  const auto height = static_cast<size_t>(rows), width = static_cast<size_t>(columns),
             depth = static_cast<size_t>(rank);
  std::vector<Column> reflectors;
  std::vector<double> scales;
  for (size_t k = 0; k < depth; ++k) {
    Column x(height);
    for (size_t i = 0; i < height; ++i) x[i] = matrix[i * width + k];
    for (size_t j = 0; j < k; ++j) reflect(x, reflectors[j], scales[j], j);
    double below = 0;
    for (size_t i = k + 1; i < height; ++i) below += x[i] * x[i];
    // The reflection that leaves -sign(x[k]) |x| in place k; none where nothing is below it.
    Column v(height);
    double scale = 0;
    if (below > 0) {
      v = x;
      v[k] += std::copysign(std::sqrt(x[k] * x[k] + below), x[k]);
      scale = 2 / (v[k] * v[k] + below);
    }
    reflectors.push_back(std::move(v));
    scales.push_back(scale);
  }
  PartOfQr part{std::vector<float>(height * depth), std::vector<float>(depth * width)};
  std::vector<Column> q;
  for (size_t k = 0; k < depth; ++k) {
    Column unit(height);
    unit[k] = 1;
    for (size_t j = depth; j-- > 0;) reflect(unit, reflectors[j], scales[j], j);
    for (size_t i = 0; i < height; ++i) part.q[i * depth + k] = static_cast<float>(unit[i]);
    q.push_back(std::move(unit));
  }
  Column row(width);
  for (size_t k = 0; k < depth; ++k) {
    row.assign(width, 0);
    for (size_t i = 0; i < height; ++i)
      for (size_t j = 0; j < width; ++j) row[j] += q[k][i] * matrix[i * width + j];
    for (size_t j = 0; j < width; ++j) part.r[k * width + j] = j < k ? 0 : static_cast<float>(row[j]);
  }
  return part;
}

}  // namespace transom
