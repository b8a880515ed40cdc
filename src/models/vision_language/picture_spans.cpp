// SPDX-License-Identifier: Apache-2.0
#include "models/vision_language/picture_spans.h"

namespace transom {

std::vector<FilledPlaces> spans_of_pictures(std::span<const int64_t> places, int64_t length) {
  std::vector<FilledPlaces> spans(places.size());
  int64_t end = length;
  for (size_t i = places.size(); i-- > 0;) {
    if (i + 1 < places.size() && places[i + 1] != places[i] + 1) end = places[i + 1];
    spans[i] = {places[i], end - places[i]};
  }
  return spans;
}

std::vector<FilledPlaces> spans_of_token(std::span<const int64_t> text, int64_t token) {
  std::vector<int64_t> places;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == token) places.push_back(static_cast<int64_t>(i));
  return spans_of_pictures(places, static_cast<int64_t>(text.size()));
}

}  // namespace transom
