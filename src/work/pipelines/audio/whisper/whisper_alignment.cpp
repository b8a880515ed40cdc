// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/whisper/whisper_alignment.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace transom {
namespace {

// (x - mean) / deviation of each frame, over the tokens.
void normalise_over_tokens(HeadAttention& head, int64_t tokens, int64_t frames) {
  for (int64_t frame = 0; frame < frames; ++frame) {
    const auto at = [&](int64_t token) -> float& { return head[static_cast<size_t>(token * frames + frame)]; };
    double mean = 0, squares = 0;
    for (int64_t token = 0; token < tokens; ++token) mean += at(token);
    mean /= static_cast<double>(tokens);
    for (int64_t token = 0; token < tokens; ++token) squares += (at(token) - mean) * (at(token) - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(tokens));
    // A frame that all tokens see alike says nothing.
    for (int64_t token = 0; token < tokens; ++token)
      at(token) = deviation > 0 ? static_cast<float>((at(token) - mean) / deviation) : 0;
  }
}

}  // namespace

void median_filter(std::span<float> row, int64_t width) {
  if (width < 1 || width % 2 != 1) fail("median_filter_width: expected an odd number, found {}", width);
  const int64_t half = width / 2, length = static_cast<int64_t>(row.size());
  if (length <= half) return;
  const std::vector<float> values(row.begin(), row.end());
  std::vector<float> window(static_cast<size_t>(width));
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t k = -half; k <= half; ++k) {
      int64_t place = std::abs(i + k);
      if (place >= length) place = 2 * (length - 1) - place;
      window[static_cast<size_t>(k + half)] = values[static_cast<size_t>(place)];
    }
    std::nth_element(window.begin(), window.begin() + half, window.end());
    row[static_cast<size_t>(i)] = window[static_cast<size_t>(half)];
  }
}

std::vector<int64_t> warped_columns(const std::vector<double>& costs, int64_t rows, int64_t columns) {
  if (rows < 1 || columns < 1 || static_cast<int64_t>(costs.size()) != rows * columns)
    fail(ErrorKind::kInternal, "costs: expected [{}, {}], found {} of them", rows, columns, costs.size());
  enum Step : uint8_t { kBoth, kRow, kColumn };
  // Sums are kept in f32, as the reference keeps them: ties fall alike.
  constexpr float kNone = std::numeric_limits<float>::infinity();
  std::vector<float> before(static_cast<size_t>(rows) + 1, kNone), now = before;  // of a column
  before[0] = 0;
  std::vector<Step> steps(costs.size());
  for (int64_t j = 0; j < columns; ++j) {
    now[0] = kNone;
    for (int64_t i = 0; i < rows; ++i) {
      const auto above = static_cast<size_t>(i);
      const float both = before[above], row = now[above], column = before[above + 1];
      Step step = kColumn;
      float least = column;
      if (both < row && both < column) step = kBoth, least = both;
      else if (row < both && row < column) step = kRow, least = row;
      const auto place = static_cast<size_t>(i * columns + j);
      now[above + 1] = static_cast<float>(costs[place] + least);
      steps[place] = step;
    }
    std::swap(before, now);
  }
  std::vector<int64_t> reached(static_cast<size_t>(rows), 0);
  for (int64_t i = rows - 1, j = columns - 1; i >= 0 && j >= 0;) {
    reached[static_cast<size_t>(i)] = j;
    const Step step = steps[static_cast<size_t>(i * columns + j)];
    if (step != kColumn) --i;
    if (step != kRow) --j;
  }
  return reached;
}

std::vector<int64_t> token_frames(std::vector<HeadAttention> heads, int64_t tokens, int64_t frames, int64_t width) {
  if (tokens == 0 || frames <= 0 || heads.empty()) return std::vector<int64_t>(static_cast<size_t>(tokens), 0);
  std::vector<double> costs(static_cast<size_t>(tokens * frames), 0);
  for (HeadAttention& head : heads) {
    normalise_over_tokens(head, tokens, frames);
    for (int64_t token = 0; token < tokens; ++token)
      median_filter(std::span(head).subspan(static_cast<size_t>(token * frames), static_cast<size_t>(frames)), width);
  }
  for (size_t i = 0; i < costs.size(); ++i) {
    double sum = 0;
    for (const HeadAttention& head : heads) sum += head[i];
    costs[i] = -static_cast<double>(static_cast<float>(sum / static_cast<double>(heads.size())));
  }
  return warped_columns(costs, tokens, frames);
}

}  // namespace transom
