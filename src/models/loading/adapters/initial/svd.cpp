// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/numbers/mt19937.h"
#include "models/loading/adapters/initial/decompositions.h"

namespace transom {
namespace {

constexpr int kMostRounds = 200;
constexpr double kSettled = 1e-13;  // relative change of the sum of the values

// Vectors of one length, one behind the other: rows of a matrix, or columns of its transpose.
class Vectors {
 public:
  Vectors(size_t count, size_t length) : count_(count), length_(length), values_(count * length) {}
  size_t count() const { return count_; }
  size_t length() const { return length_; }
  double* operator[](size_t i) { return values_.data() + i * length_; }
  const double* operator[](size_t i) const { return values_.data() + i * length_; }

 private:
  size_t count_, length_;
  std::vector<double> values_;
};

double product_of_vectors(const double* a, const double* b, size_t length) {
  double sum = 0;
  for (size_t i = 0; i < length; ++i) sum += a[i] * b[i];
  return sum;
}

// Gram-Schmidt, twice, so that rounding leaves nothing. What depends on those before it becomes zero.
void make_orthonormal(Vectors& vectors) {
  for (size_t k = 0; k < vectors.count(); ++k) {
    double* const x = vectors[k];
    const double before = std::sqrt(product_of_vectors(x, x, vectors.length()));
    for (int pass = 0; pass < 2; ++pass)
      for (size_t j = 0; j < k; ++j) {
        const double* const q = vectors[j];
        const double part = product_of_vectors(q, x, vectors.length());
        for (size_t i = 0; i < vectors.length(); ++i) x[i] -= part * q[i];
      }
    const double length = std::sqrt(product_of_vectors(x, x, vectors.length()));
    const double scale = length > 1e-12 * before ? 1 / length : 0;
    for (size_t i = 0; i < vectors.length(); ++i) x[i] *= scale;
  }
}

// M x and M' y of a row-major matrix M [rows, columns], for each vector.
Vectors times(const std::vector<float>& matrix, const Vectors& x, size_t rows) {
  Vectors y(x.count(), rows);
  for (size_t i = 0; i < rows; ++i) {
    const float* const row = matrix.data() + i * x.length();
    for (size_t k = 0; k < x.count(); ++k) {
      const double* const from = x[k];
      double sum = 0;
      for (size_t j = 0; j < x.length(); ++j) sum += static_cast<double>(row[j]) * from[j];
      y[k][i] = sum;
    }
  }
  return y;
}

Vectors transposed_times(const std::vector<float>& matrix, const Vectors& y, size_t columns) {
  Vectors x(y.count(), columns);
  for (size_t i = 0; i < y.length(); ++i) {
    const float* const row = matrix.data() + i * columns;
    for (size_t k = 0; k < y.count(); ++k) {
      const double factor = y[k][i];
      double* const to = x[k];
      for (size_t j = 0; j < columns; ++j) to[j] += factor * static_cast<double>(row[j]);
    }
  }
  return x;
}

// One-sided Jacobi (Hestenes, 1958): turns the vectors until they are orthogonal to each other, and `turned` with them.
void make_orthogonal(Vectors& vectors, Vectors& turned) {
  const auto turn = [](double* a, double* b, size_t length, double c, double s) {
    for (size_t i = 0; i < length; ++i) {
      const double before = a[i];
      a[i] = c * before - s * b[i];
      b[i] = s * before + c * b[i];
    }
  };
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool changed = false;
    for (size_t p = 0; p < vectors.count(); ++p)
      for (size_t q = p + 1; q < vectors.count(); ++q) {
        const size_t length = vectors.length();
        const double pp = product_of_vectors(vectors[p], vectors[p], length),
                     qq = product_of_vectors(vectors[q], vectors[q], length),
                     pq = product_of_vectors(vectors[p], vectors[q], length);
        if (std::abs(pq) <= 1e-15 * std::sqrt(pp * qq)) continue;
        changed = true;
        const double ratio = (qq - pp) / (2 * pq);
        const double t = std::copysign(1, ratio) / (std::abs(ratio) + std::sqrt(1 + ratio * ratio));
        const double c = 1 / std::sqrt(1 + t * t), s = c * t;
        turn(vectors[p], vectors[q], length, c, s);
        turn(turned[p], turned[q], turned.length(), c, s);
      }
    if (!changed) return;
  }
}

}  // namespace

PartOfSvd part_of_svd(const std::vector<float>& matrix, int64_t rows, int64_t columns, int64_t rank) {
  const auto height = static_cast<size_t>(rows), width = static_cast<size_t>(columns),
             depth = static_cast<size_t>(rank);
  const size_t count = std::min({2 * depth + 8, height, width});
  Mt19937 generator(1);
  std::vector<float> drawn(count * height);
  generator.fill_normal(drawn);
  Vectors left(count, height);
  for (size_t k = 0; k < count; ++k) std::copy_n(drawn.begin() + static_cast<ptrdiff_t>(k * height), height, left[k]);
  make_orthonormal(left);
  Vectors right = transposed_times(matrix, left, width);
  double last = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    make_orthonormal(right);
    left = times(matrix, right, height);
    double sum = 0;  // of the squares of all values in the subspace
    for (size_t k = 0; k < count; ++k) sum += product_of_vectors(left[k], left[k], height);
    if (count == std::min(height, width) || std::abs(sum - last) <= kSettled * sum) break;
    last = sum;
    make_orthonormal(left);
    right = transposed_times(matrix, left, width);
  }
  // left is M right with orthonormal right: turned until its vectors are orthogonal, it is U S.
  make_orthogonal(left, right);
  std::vector<double> lengths(count);
  for (size_t k = 0; k < count; ++k) lengths[k] = std::sqrt(product_of_vectors(left[k], left[k], height));
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  PartOfSvd part{std::vector<float>(height * depth), std::vector<double>(depth), std::vector<float>(depth * width)};
  for (size_t k = 0; k < depth; ++k) {
    const size_t from = order[k];
    part.values[k] = lengths[from];
    const double scale = lengths[from] > 0 ? 1 / lengths[from] : 0;
    for (size_t i = 0; i < height; ++i) part.left[i * depth + k] = static_cast<float>(left[from][i] * scale);
    for (size_t j = 0; j < width; ++j) part.right[k * width + j] = static_cast<float>(right[from][j]);
  }
  return part;
}

}  // namespace transom
