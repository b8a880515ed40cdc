// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/tables/coco_masks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

// Pixels are counted down the columns, as COCO counts them. Sets those of an odd number of turns before them or at
// them.
void add_between_turns(std::vector<int64_t> turns, ObjectMask& mask) {
  std::sort(turns.begin(), turns.end());
  const int64_t all = mask.width * mask.height;
  for (size_t i = 0; i < turns.size(); i += 2) {
    const int64_t end = i + 1 < turns.size() ? turns[i + 1] : all;
    for (int64_t at = turns[i]; at < std::min(end, all); ++at)
      mask.pixels[static_cast<size_t>(at % mask.height * mask.width + at / mask.height)] = 1;
  }
}

// A line between two places of a grid five times as fine, all of whose places are visited, from the first to the last.
struct FinePlace {
  int64_t x = 0, y = 0;
};

void follow_line(FinePlace from, FinePlace to, std::vector<FinePlace>& places) {
  const int64_t dx = std::abs(to.x - from.x), dy = std::abs(to.y - from.y);
  const bool is_flat = dx >= dy;
  const bool backwards = is_flat ? from.x > to.x : from.y > to.y;
  if (backwards) std::swap(from, to);
  const int64_t steps = std::max(dx, dy);
  const int64_t rise = is_flat ? to.y - from.y : to.x - from.x;
  const double slope = static_cast<double>(rise) / static_cast<double>(steps);
  for (int64_t i = 0; i <= steps; ++i) {
    const int64_t at = backwards ? steps - i : i;
    // Of a single place the slope is no number, and the place the first one.
    const double moved = steps == 0 ? 0 : slope * static_cast<double>(at);
    if (is_flat) places.push_back({from.x + at, static_cast<int64_t>(static_cast<double>(from.y) + moved + 0.5)});
    else places.push_back({static_cast<int64_t>(static_cast<double>(from.x) + moved + 0.5), from.y + at});
  }
}

constexpr double kFiner = 5;  // how many places of the grid a pixel has, in each direction
constexpr size_t kMostPlaces = 5'000'000;

void add_polygon(const std::vector<double>& corners, ObjectMask& mask, const std::string& where) {
  std::vector<FinePlace> fine, places;
  for (size_t i = 0; i < corners.size(); i += 2)
    fine.push_back(
        {static_cast<int64_t>(kFiner * corners[i] + 0.5), static_cast<int64_t>(kFiner * corners[i + 1] + 0.5)});
  fine.push_back(fine.front());
  for (size_t i = 0; i + 1 < fine.size(); ++i) {
    const int64_t steps = std::max(std::abs(fine[i].x - fine[i + 1].x), std::abs(fine[i].y - fine[i + 1].y));
    if (places.size() + static_cast<size_t>(steps) > kMostPlaces)
      fail("{}: expected a polygon near the picture, found one whose boundary is {} pixels or longer", where,
           kMostPlaces / static_cast<size_t>(kFiner));
    follow_line(fine[i], fine[i + 1], places);
  }
  // Where the boundary goes through the middle of a column of pixels, the column turns.
  std::vector<int64_t> turns;
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i].x == places[i - 1].x) continue;
    const int64_t left = places[i].x < places[i - 1].x ? places[i].x : places[i].x - 1;
    const double x = (static_cast<double>(left) + 0.5) / kFiner - 0.5;
    if (std::floor(x) != x || x < 0 || x > static_cast<double>(mask.width - 1)) continue;
    const double y = (static_cast<double>(std::min(places[i].y, places[i - 1].y)) + 0.5) / kFiner - 0.5;
    turns.push_back(static_cast<int64_t>(x) * mask.height +
                    static_cast<int64_t>(std::ceil(std::clamp(y, 0.0, static_cast<double>(mask.height)))));
  }
  add_between_turns(std::move(turns), mask);
}

// Lengths as COCO writes them in text: six bits a character, the lowest first, and from the third on the difference to
// the length two before.
std::vector<int64_t> lengths_of_text(const std::string& text, const std::string& where) {
  std::vector<int64_t> lengths;
  for (size_t at = 0; at < text.size();) {
    int64_t value = 0, shift = 0;
    for (bool more = true; more; shift += 5) {
      if (at >= text.size() || shift > 40) fail("{}: counts: expected lengths, found a text that ends early", where);
      const int64_t bits = static_cast<unsigned char>(text[at++]) - 48;
      if (bits < 0 || bits > 63) fail("{}: counts: expected COCO's characters, found {}", where, quoted(text, 40));
      value |= (bits & 0x1f) << shift;
      more = (bits & 0x20) != 0;
      if (!more && (bits & 0x10)) value |= -(int64_t{1} << (shift + 5));
    }
    lengths.push_back(lengths.size() > 2 ? value + lengths[lengths.size() - 2] : value);
  }
  return lengths;
}

void add_lengths(const Json& runs, ObjectMask& mask, const std::string& where) {
  const Json size = runs.value("size", Json()), counts = runs.value("counts", Json());
  if (size != Json::array({mask.height, mask.width}))
    fail("{}: size: expected the picture's, [{}, {}], found {}", where, mask.height, mask.width,
         quoted(dump_json(size), 60));
  std::vector<int64_t> lengths;
  if (counts.is_string()) {
    lengths = lengths_of_text(counts.get<std::string>(), where);
  } else {
    if (!counts.is_array()) fail("{}: counts: expected lengths", where);
    for (const Json& count : counts) {
      if (!count.is_number_integer()) fail("{}: counts: expected whole numbers", where);
      lengths.push_back(count.get<int64_t>());
    }
  }
  int64_t at = 0;
  std::vector<int64_t> turns;
  for (const int64_t length : lengths) {
    if (length < 0 || length > mask.width * mask.height - at)
      fail("{}: counts: expected lengths of {} pixels together, found more", where, mask.width * mask.height);
    turns.push_back(at += length);
  }
  if (at != mask.width * mask.height)
    fail("{}: counts: expected lengths of {} pixels together, found {}", where, mask.width * mask.height, at);
  turns.pop_back();
  add_between_turns(std::move(turns), mask);
}

std::vector<double> corners_of(const Json& polygon, const std::string& where) {
  // Beyond it lines would have more places than any picture, and numbers no place at all.
  constexpr double kFarthest = 1e6;
  std::vector<double> corners;
  if (polygon.is_array())
    for (const Json& number : polygon)
      if (number.is_number()) corners.push_back(number.get<double>());
  if (!polygon.is_array() || corners.size() != polygon.size() || corners.size() < 6 || corners.size() % 2 != 0)
    fail("{}: expected polygons [x, y, x, y, ...] of three corners or more, found {}", where,
         quoted(dump_json(polygon), 60));
  for (const double corner : corners)
    if (!(std::abs(corner) <= kFarthest)) fail("{}: expected corners of a polygon in pixels, found {}", where, corner);
  return corners;
}

}  // namespace

ObjectMask object_mask(std::string_view segmentation, int64_t width, int64_t height, const std::string& where) {
  ObjectMask mask{width, height, std::vector<uint8_t>(static_cast<size_t>(width * height), 0)};
  const Json said = parse_json(segmentation, where);
  if (said.is_object()) add_lengths(said, mask, where);
  else if (said.is_array() && !said.empty())
    for (const Json& polygon : said) add_polygon(corners_of(polygon, where), mask, where);
  else fail("{}: expected a list of polygons, or lengths of runs, found {}", where, quoted(segmentation, 60));
  return mask;
}

}  // namespace transom
