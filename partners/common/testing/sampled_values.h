// SPDX-License-Identifier: Apache-2.0
// What golden files keep of a large tensor (tests/golden/make/sampled.py): elements at places that a rule gives, the
// Euclidean norm, and sums of all elements with signs that hang on the place alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace transom::test {

inline constexpr size_t kSignedSums = 3;

// The output function of splitmix64.
inline uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Where the k-th of so many samples is among `size` elements: somewhere in the k-th part.
inline size_t place_of_sample(size_t k, size_t samples, size_t size) {
  const size_t begin = k * size / samples, end = (k + 1) * size / samples;
  return begin + mixed(k) % (end - begin);
}

// A tensor of a golden file: `values` are all of its elements, or, where it was sampled, what is kept of them.
struct KeptValues {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<double> values;
  bool sampled = false;
};

// From the name and the contents in the file: "weight [4,96]" is a sample of a (4, 96) tensor.
inline KeptValues kept_values(const std::string& stored, std::vector<int64_t> shape, std::vector<double> values) {
  const size_t bracket = stored.find(" [");
  if (bracket == stored.npos) return {stored, std::move(shape), std::move(values), false};
  KeptValues kept{stored.substr(0, bracket), {}, std::move(values), true};
  std::istringstream extents(stored.substr(bracket + 2));
  for (int64_t extent = 0; extents >> extent; extents.ignore()) kept.shape.push_back(extent);
  return kept;
}

inline std::string distance_text(const std::string& what, double found, double expected, double bound) {
  std::ostringstream text;
  text.precision(9);
  text << what << ": found " << found << ", expected " << expected << " within " << bound;
  return text.str();
}

// Nothing where each element is within atol + rtol |expected|. Of a sampled tensor its samples are; with errors e of
// its elements, norms differ by at most the norm of e, and sums with signs that know nothing of the errors by three
// times that, but for one in hundreds if every error were as large as allowed: they are a tenth of it. `counts`: which
// elements do; those that do not are 0 in a sample.
inline std::string difference(const KeptValues& expected, const std::vector<double>& found, double atol, double rtol,
                              const std::vector<bool>& counts = {}) {
  const auto differs = [&](double a, double b, double bound) { return !(std::abs(a - b) <= bound); };
  const auto counted = [&](size_t i) { return counts.empty() || counts[i]; };
  if (!expected.sampled) {
    if (found.size() != expected.values.size()) return "another number of elements";
    for (size_t i = 0; i < found.size(); ++i) {
      const double bound = atol + rtol * std::abs(expected.values[i]);
      if (counted(i) && found[i] != expected.values[i] && differs(found[i], expected.values[i], bound))
        return distance_text("element " + std::to_string(i), found[i], expected.values[i], bound);
    }
    return {};
  }
  const size_t samples = expected.values.size() - 1 - kSignedSums;
  if (expected.values.size() <= 1 + kSignedSums || found.size() < samples) return "another number of elements";
  for (size_t k = 0; k < samples; ++k) {
    const size_t i = place_of_sample(k, samples, found.size());
    const double bound = atol + rtol * std::abs(expected.values[k]), value = counted(i) ? found[i] : 0;
    if (differs(value, expected.values[k], bound))
      return distance_text("element " + std::to_string(i), value, expected.values[k], bound);
  }
  double squares = 0, sums[kSignedSums] = {}, number = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!counted(i)) continue;
    const uint64_t bits = mixed(i);
    squares += found[i] * found[i];
    number += 1;
    for (size_t k = 0; k < kSignedSums; ++k) sums[k] += (bits >> k & 1) != 0 ? -found[i] : found[i];
  }
  const double* kept = expected.values.data() + samples;
  const double bound = atol * std::sqrt(number) + rtol * kept[0];
  if (differs(std::sqrt(squares), kept[0], bound))
    return distance_text("the norm of all elements", std::sqrt(squares), kept[0], bound);
  for (size_t k = 0; k < kSignedSums; ++k)
    if (differs(sums[k], kept[1 + k], 3 * bound))
      return distance_text("signed sum " + std::to_string(k) + " of all elements", sums[k], kept[1 + k], 3 * bound);
  return {};
}

// Where the elements that are kept are among `size`.
inline std::vector<size_t> places_of(const KeptValues& expected, size_t size) {
  std::vector<size_t> places(expected.sampled ? expected.values.size() - 1 - kSignedSums : expected.values.size());
  for (size_t k = 0; k < places.size(); ++k) places[k] = expected.sampled ? place_of_sample(k, places.size(), size) : k;
  return places;
}

// The largest distance of the elements that are kept.
inline double largest_distance(const KeptValues& expected, const std::vector<double>& found,
                               const std::vector<bool>& counts = {}) {
  const std::vector<size_t> places = places_of(expected, found.size());
  double largest = 0;
  for (size_t k = 0; k < places.size(); ++k)
    if (counts.empty() || counts[places[k]])
      largest = std::max(largest, std::abs(found[places[k]] - expected.values[k]));
  return largest;
}

// The norm of the errors by that of the values, of the elements that are kept.
inline double relative_error(const KeptValues& expected, const std::vector<double>& found) {
  const std::vector<size_t> places = places_of(expected, found.size());
  double error = 0, size = 0;
  for (size_t k = 0; k < places.size(); ++k) {
    const double value = expected.values[k], distance = found.at(places[k]) - value;
    error += distance * distance, size += value * value;
  }
  return std::sqrt(error / size);
}

}  // namespace transom::test
