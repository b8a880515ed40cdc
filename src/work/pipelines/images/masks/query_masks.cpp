// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/images/masks/query_masks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/threads/threads.h"
#include "work/pipelines/images/enlarged_map.h"

namespace transom {
namespace {

constexpr int64_t kSide = 384;  // to which all masks are brought first, whatever the picture's extents
constexpr auto kPlane = static_cast<size_t>(kSide * kSide);

float chance_of(float logit) { return 1 / (1 + std::exp(-logit)); }

// [Q, C + 1], each row the softmax of its logits.
std::vector<float> chances_of_classes(const QueryMasks& found) {
  const auto columns = static_cast<size_t>(found.classes + 1);
  std::vector<float> chances(found.logits.begin(), found.logits.end());
  for (size_t begin = 0; begin < chances.size(); begin += columns) {
    const std::span<float> row(chances.data() + begin, columns);
    const float most = *std::max_element(row.begin(), row.end());
    float sum = 0;
    for (float& value : row) sum += value = std::exp(value - most);
    for (float& value : row) value /= sum;
  }
  return chances;
}

// Logits of the masks of these queries, [queries, kSide, kSide].
std::vector<float> squares_of(const QueryMasks& found, std::span<const int64_t> queries) {
  const auto plane = static_cast<size_t>(found.h * found.w);
  std::vector<float> squares(queries.size() * kPlane);
  parallel_for(queries.size(), [&](size_t i) {
    const EnlargedMaps map(found.masks.subspan(static_cast<size_t>(queries[i]) * plane, plane), 1, found.h, found.w,
                           kSide, kSide);
    for (int64_t y = 0; y < kSide; ++y)
      map.line(0, y, std::span(squares).subspan(i * kPlane + static_cast<size_t>(y * kSide), kSide));
  });
  return squares;
}

// White where `numbers` are this one.
Picture white_where(const std::vector<int32_t>& numbers, int32_t number, const QueryMasks& found) {
  std::vector<uint8_t> mask(numbers.size());
  std::transform(numbers.begin(), numbers.end(), mask.begin(),
                 [&](int32_t each) { return static_cast<uint8_t>(each == number ? 255 : 0); });
  return {found.width, found.height, 1, std::move(mask)};
}

double to_six_places(float score) { return std::nearbyint(static_cast<double>(score) * 1e6) / 1e6; }

// How many pixels queries have, all by themselves and beside the others.
struct PixelCounts {
  std::vector<int64_t> own, left;
};

PixelCounts pixel_counts(const EnlargedMaps& maps, const std::vector<float>& scores, const std::vector<int32_t>& surest,
                         double least) {
  const auto width = static_cast<size_t>(maps.width());
  PixelCounts counts{std::vector<int64_t>(scores.size(), 0), std::vector<int64_t>(scores.size(), 0)};
  parallel_for(scores.size(), [&](size_t k) {
    std::vector<float> line(width);
    for (int64_t y = 0; y < maps.height(); ++y) {
      maps.line(static_cast<int64_t>(k), y, line);
      counts.own[k] += std::count_if(line.begin(), line.end(),
                                     [&](float chance) { return static_cast<double>(chance * scores[k]) >= least; });
    }
  });
  for (const int32_t query : surest) ++counts.left[static_cast<size_t>(query)];
  return counts;
}

// Of each pixel the query whose chance there, times its score, is the largest.
std::vector<int32_t> surest_queries(const EnlargedMaps& maps, const std::vector<float>& scores) {
  const auto width = static_cast<size_t>(maps.width());
  std::vector<int32_t> surest(width * static_cast<size_t>(maps.height()), 0);
  parallel_for(static_cast<size_t>(maps.height()), [&](size_t y) {
    std::vector<float> most(width, -1), line(width);
    for (size_t k = 0; k < scores.size(); ++k) {
      maps.line(static_cast<int64_t>(k), static_cast<int64_t>(y), line);
      for (size_t x = 0; x < width; ++x)
        if (const float chance = line[x] * scores[k]; chance > most[x])
          most[x] = chance, surest[y * width + x] = static_cast<int32_t>(k);
    }
  });
  return surest;
}

// As torch.topk gives them unsorted, which is the order in which objects lie above each other: (chance, number).
std::vector<std::pair<float, int64_t>> largest_chances(const std::vector<float>& chances, int64_t count) {
  std::vector<std::pair<float, int64_t>> pairs;
  for (size_t i = 0; i < chances.size(); ++i) pairs.emplace_back(chances[i], static_cast<int64_t>(i));
  const auto above = [](const auto& a, const auto& b) { return a.first > b.first; };
  count = std::min<int64_t>(count, std::ssize(pairs));
  if (count == 0) return {};
  if (count * 64 <= std::ssize(pairs)) std::partial_sort(pairs.begin(), pairs.begin() + count, pairs.end(), above);
  else std::nth_element(pairs.begin(), pairs.begin() + count - 1, pairs.end(), above);
  pairs.resize(static_cast<size_t>(count));
  return pairs;
}

// The places of the square that torch's interpolation "nearest" takes.
std::vector<size_t> nearest_of_square(int64_t extent) {
  const float scale = static_cast<float>(kSide) / static_cast<float>(extent);
  std::vector<size_t> places;
  for (int64_t i = 0; i < extent; ++i)
    places.push_back(static_cast<size_t>(
        std::min<int64_t>(static_cast<int64_t>(std::floor(static_cast<float>(i) * scale)), kSide - 1)));
  return places;
}

// How sure the pixels of a mask are of it, in the mean.
float mean_chance(std::span<const float> square) {
  double sum = 0, count = 0;
  for (const float logit : square)
    if (logit > 0) sum += static_cast<double>(chance_of(logit)), ++count;
  return static_cast<float>(sum / (count + 1e-6));
}

}  // namespace

std::vector<QuerySegment> panoptic_segments(const QueryMasks& found, const QueryThresholds& thresholds) {
  const std::vector<float> chances = chances_of_classes(found);
  std::vector<int64_t> queries, labels;
  std::vector<float> scores;
  for (int64_t query = 0; query < found.queries; ++query) {
    const auto row = chances.begin() + query * (found.classes + 1);
    const auto best = std::max_element(row, row + found.classes + 1);
    if (best - row == found.classes || !(static_cast<double>(*best) > thresholds.score)) continue;
    queries.push_back(query), labels.push_back(best - row), scores.push_back(*best);
  }
  if (queries.empty()) return {};
  std::vector<float> squares = squares_of(found, queries);
  std::transform(squares.begin(), squares.end(), squares.begin(), chance_of);
  const EnlargedMaps maps(squares, std::ssize(queries), kSide, kSide, found.height, found.width);
  const std::vector<int32_t> surest = surest_queries(maps, scores);
  const PixelCounts counts = pixel_counts(maps, scores, surest, thresholds.pixel);
  std::vector<QuerySegment> segments;
  for (size_t k = 0; k < queries.size(); ++k) {
    if (counts.left[k] == 0 || counts.own[k] == 0) continue;
    // A quotient of float, as there.
    if (!(static_cast<double>(static_cast<float>(counts.left[k]) / static_cast<float>(counts.own[k])) >
          thresholds.left_of_it))
      continue;
    segments.push_back({labels[k], to_six_places(scores[k]), white_where(surest, static_cast<int32_t>(k), found)});
  }
  return segments;
}

std::vector<QuerySegment> instance_segments(const QueryMasks& found, double least_score) {
  const std::vector<float> all = chances_of_classes(found);
  std::vector<float> chances;
  for (size_t i = 0; i < all.size(); ++i)
    if (static_cast<int64_t>(i) % (found.classes + 1) != found.classes) chances.push_back(all[i]);
  const std::vector<size_t> rows = nearest_of_square(found.height), columns = nearest_of_square(found.width);
  std::vector<int32_t> above(static_cast<size_t>(found.height * found.width), -1);
  std::vector<QuerySegment> segments;
  for (const auto& [chance, number] : largest_chances(chances, found.queries)) {
    const int64_t query = number / found.classes;
    const std::vector<float> square = squares_of(found, {&query, 1});
    const float score = chance * mean_chance(square);
    if (!(static_cast<double>(score) >= least_score)) continue;
    const auto id = static_cast<int32_t>(segments.size());
    bool is_somewhere = false;
    for (size_t y = 0, at = 0; y < rows.size(); ++y)
      for (size_t x = 0; x < columns.size(); ++x, ++at)
        if (square[rows[y] * static_cast<size_t>(kSide) + columns[x]] > 0) above[at] = id, is_somewhere = true;
    if (is_somewhere) segments.push_back({number % found.classes, to_six_places(score), {}});
  }
  for (size_t i = 0; i < segments.size(); ++i) segments[i].mask = white_where(above, static_cast<int32_t>(i), found);
  return segments;
}

std::vector<QuerySegment> semantic_segments(const QueryMasks& found) {
  const std::vector<float> chances = chances_of_classes(found);
  const auto classes = static_cast<size_t>(found.classes);
  std::vector<float> maps(classes * kPlane, 0);
  for (int64_t query = 0; query < found.queries; ++query) {
    std::vector<float> square = squares_of(found, {&query, 1});
    std::transform(square.begin(), square.end(), square.begin(), chance_of);
    const float* row = chances.data() + static_cast<size_t>(query) * (classes + 1);
    parallel_for(classes, [&](size_t c) {
      for (size_t i = 0; i < kPlane; ++i) maps[c * kPlane + i] += row[c] * square[i];
    });
  }
  const std::vector<int32_t> numbers =
      largest_maps(EnlargedMaps(maps, found.classes, kSide, kSide, found.height, found.width));
  std::vector<bool> seen(classes, false);
  for (const int32_t number : numbers) seen[static_cast<size_t>(number)] = true;
  std::vector<QuerySegment> segments;
  for (size_t number = 0; number < classes; ++number)
    if (seen[number])
      segments.push_back(
          {static_cast<int64_t>(number), std::nullopt, white_where(numbers, static_cast<int32_t>(number), found)});
  return segments;
}

}  // namespace transom
