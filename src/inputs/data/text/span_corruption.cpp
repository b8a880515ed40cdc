// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/span_corruption.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace transom {
namespace {

int64_t rounded(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

// With the sentinels and the end: what is left of a text of so many tokens, and what is cut out.
SpanLengths corrupted_lengths(int64_t tokens, const SpanCorruption& options) {
  const int64_t noise = rounded(static_cast<double>(tokens) * options.noise_density);
  const int64_t spans = rounded(static_cast<double>(noise) / options.mean_span_length);
  return {tokens - noise + spans + 1, noise + spans + 1};
}

// numpy.random.shuffle.
void shuffle(std::vector<bool>& values, Mt19937& generator) {
  for (size_t i = values.size(); i-- > 1;) {
    const auto last = static_cast<uint32_t>(i);
    const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << std::bit_width(last)) - 1);
    uint32_t other;
    do other = generator.random() & mask;
    while (other > last);
    const bool kept = values[i];
    values[i] = values[other];
    values[other] = kept;
  }
}

// The lengths of `segments` parts, none of them empty, that `items` are cut into at random.
std::vector<int64_t> random_segments(int64_t items, int64_t segments, Mt19937& generator) {
  std::vector<bool> begins(static_cast<size_t>(std::max<int64_t>(items - 1, 0)));
  std::fill_n(begins.begin(), std::min<int64_t>(segments - 1, items - 1), true);
  shuffle(begins, generator);
  std::vector<int64_t> lengths{1};
  for (const bool begin : begins)
    if (begin) lengths.push_back(1);
    else ++lengths.back();
  return lengths;
}

}  // namespace

SpanLengths span_lengths(int64_t inputs_length, const SpanCorruption& options) {
  int64_t tokens = inputs_length;
  require(corrupted_lengths(tokens, options).tokens <= inputs_length,
          "span corruption: expected rows of more tokens than {}, for some to be cut out", inputs_length);
  while (corrupted_lengths(tokens + 1, options).tokens <= inputs_length) ++tokens;
  SpanLengths result{tokens, corrupted_lengths(tokens, options).labels};
  if (options.noise_density == 0.5 && result.labels > inputs_length) --result.tokens, --result.labels;
  return result;
}

std::vector<bool> noise_spans(int64_t length, const SpanCorruption& options, Mt19937& generator) {
  require(length >= 2, "span corruption: expected rows of at least 2 tokens, found {}", length);
  const int64_t noise =
      std::clamp<int64_t>(rounded(static_cast<double>(length) * options.noise_density), 1, length - 1);
  const int64_t kept = length - noise;
  const int64_t spans =
      std::max<int64_t>(rounded(static_cast<double>(std::min(noise, kept)) / options.mean_span_length), 1);
  const std::vector<int64_t> noise_lengths = random_segments(noise, spans, generator),
                             kept_lengths = random_segments(kept, spans, generator);
  std::vector<bool> mask;
  for (size_t i = 0; i < noise_lengths.size(); ++i) {
    mask.insert(mask.end(), static_cast<size_t>(kept_lengths[i]), false);
    mask.insert(mask.end(), static_cast<size_t>(noise_lengths[i]), true);
  }
  return mask;
}

PaddedRows corrupt_spans(PaddedRows& input_ids, const SpanCorruption& options, Mt19937& generator) {
  PaddedRows inputs{input_ids.rows, 0, {}}, labels{input_ids.rows, 0, {}};
  for (int64_t row = 0; row < input_ids.rows; ++row) {
    const std::vector<bool> noise = noise_spans(input_ids.length, options, generator);
    // A run of what the other side takes is a sentinel here; each side counts its own.
    int64_t inputs_sentinel = options.first_sentinel, labels_sentinel = options.first_sentinel;
    for (size_t i = 0; i < noise.size(); ++i) {
      const int64_t token = input_ids.values[static_cast<size_t>(row * input_ids.length) + i];
      const bool begins = i == 0 || noise[i] != noise[i - 1];
      if (begins) (noise[i] ? inputs : labels).values.push_back(noise[i] ? inputs_sentinel-- : labels_sentinel--);
      (noise[i] ? labels : inputs).values.push_back(token);
    }
    inputs.values.push_back(options.eos_token_id);
    labels.values.push_back(options.eos_token_id);
    if (row > 0) continue;
    inputs.length = static_cast<int64_t>(inputs.values.size());
    labels.length = static_cast<int64_t>(labels.values.size());
  }
  input_ids = std::move(inputs);
  return labels;
}

}  // namespace transom
