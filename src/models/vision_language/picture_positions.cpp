// SPDX-License-Identifier: Apache-2.0
#include "models/vision_language/picture_positions.h"

#include <algorithm>

#include "base/error.h"

namespace transom {

TextPositions picture_positions(int64_t length, const std::vector<PlacedPicture>& pictures) {
  TextPositions positions;
  positions.prompt.resize(static_cast<size_t>(kPictureAxes));
  const auto stand = [&](int64_t time, int64_t row, int64_t column) {
    positions.prompt[0].push_back(time);
    positions.prompt[1].push_back(row);
    positions.prompt[2].push_back(column);
  };
  int64_t place = 0, next = 0;
  const auto text_until = [&](int64_t end) {
    for (; place < end; ++place, ++next) stand(next, next, next);
  };
  for (const PlacedPicture& picture : pictures) {
    const PictureExtents& in = picture.extents;
    if (picture.places.size() != 1 || picture.places[0].count != in.places())
      fail(ErrorKind::kUnsupported, "a picture of {} x {} places has to fill them side by side, without tokens between",
           in.height, in.width);
    const FilledPlaces& places = picture.places[0];
    if (places.begin < place || places.end() > length)
      fail(ErrorKind::kInternal, "a picture at places {} to {} of {} tokens", places.begin, places.end(), length);
    text_until(places.begin);
    for (int64_t time = 0; time < in.frames; ++time)
      for (int64_t row = 0; row < in.height; ++row)
        for (int64_t column = 0; column < in.width; ++column) stand(next + time, next + row, next + column);
    place = places.end();
    next += std::max(in.height, in.width);
  }
  text_until(length);
  // Time has no part in where the text goes on, as in Transformers; a video's last frame may stand further.
  int64_t last = -1;
  for (const std::vector<int64_t>& axis : positions.prompt)
    for (const int64_t number : axis) last = std::max(last, number);
  positions.delta = last + 1 - length;
  return positions;
}

}  // namespace transom
