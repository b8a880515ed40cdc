// SPDX-License-Identifier: Apache-2.0
#include "files/config/picture_grid.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"

namespace transom {
namespace {

double quotient(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

// Python's x // y of numbers above 0.
int64_t floor_quotient(int64_t x, double y) {
  const auto whole = static_cast<double>(x);
  const double parts = (whole - std::fmod(whole, y)) / y, floor = std::floor(parts);
  return static_cast<int64_t>(parts - floor > 0.5 ? floor + 1 : floor);
}

// Python's int(round(x, 7)).
int64_t rounded_down(double x) { return static_cast<int64_t>(std::strtod(fmt::format("{:.7f}", x).c_str(), nullptr)); }

void expect_size(PictureSize size, const char* what) {
  constexpr int64_t kMost = 1 << 20;
  if (size.height < 1 || size.width < 1 || size.height > kMost || size.width > kMost)
    fail("{}: expected extents from 1 to {}, found {} x {}", what, kMost, size.width, size.height);
}

}  // namespace

std::vector<PictureSize> llava_next_resolutions() {
  return {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};
}

std::vector<PictureSize> onevision_resolutions() {
  std::vector<PictureSize> resolutions;
  constexpr int64_t kPart = 384, kMost = 6 * kPart;
  for (int64_t height = kPart; height <= kMost; height += kPart)
    for (int64_t width = kPart; width <= kMost; width += kPart) resolutions.push_back({height, width});
  return resolutions;
}

std::vector<PictureSize> read_resolutions(const Config& config, const std::string& field,
                                          std::vector<PictureSize> otherwise) {
  if (!config.has(field)) return otherwise;
  const Json list = parse_json(config.get_json(field), config.where());
  std::vector<PictureSize> resolutions;
  const auto is_pair = [](const Json& pair) {
    return pair.is_array() && pair.size() == 2 && pair[0].is_number_integer() && pair[1].is_number_integer();
  };
  if (!list.is_array() || list.empty() || list.size() > 1000 || !std::all_of(list.begin(), list.end(), is_pair))
    fail("{}: {}: expected a list of [height, width], found {}", config.where(), field, quoted(dump_json(list), 80));
  for (const Json& pair : list) {
    resolutions.push_back({pair[0].get<int64_t>(), pair[1].get<int64_t>()});
    expect_size(resolutions.back(), field.c_str());
  }
  return resolutions;
}

void expect_multiples(const std::vector<PictureSize>& resolutions, int64_t part, const std::string& where) {
  for (const PictureSize& size : resolutions)
    if (part < 1 || size.height % part != 0 || size.width % part != 0)
      fail("{}: image_grid_pinpoints: expected multiples of {}, found {} x {}", where, part, size.width, size.height);
}

PictureSize best_resolution(PictureSize picture, const std::vector<PictureSize>& resolutions) {
  expect_size(picture, "image_sizes");
  PictureSize best = resolutions.front();
  int64_t most = 0, least = 0;
  for (const PictureSize& each : resolutions) {
    const double scale = std::min(quotient(each.width, picture.width), quotient(each.height, picture.height));
    const auto scaled = [&](int64_t extent) { return static_cast<int64_t>(static_cast<double>(extent) * scale); };
    const int64_t counted = std::min(scaled(picture.width) * scaled(picture.height), picture.width * picture.height);
    const int64_t wasted = each.width * each.height - counted;
    if (counted > most || (counted == most && wasted < least) || (most == 0 && least == 0))
      best = each, most = counted, least = wasted;
  }
  return best;
}

PictureSize fitted_into(PictureSize picture, PictureSize resolution) {
  const double wide = quotient(resolution.width, picture.width), high = quotient(resolution.height, picture.height);
  const auto fitted = [](int64_t extent, double scale, int64_t most) {
    return std::max<int64_t>(std::min(static_cast<int64_t>(std::ceil(static_cast<double>(extent) * scale)), most), 1);
  };
  if (wide < high) return {fitted(picture.height, wide, resolution.height), resolution.width};
  return {resolution.height, fitted(picture.width, high, resolution.width)};
}

GridInside inside_of_grid(PictureSize picture, PictureSize grid) {
  GridInside inside{0, grid.height, 0, grid.width};
  if (quotient(picture.width, picture.height) > quotient(grid.width, grid.height)) {
    const int64_t height = rounded_down(static_cast<double>(picture.height) * quotient(grid.width, picture.width));
    inside.top = (grid.height - height) / 2;
    inside.height = grid.height - 2 * inside.top;
  } else {
    const int64_t width = rounded_down(static_cast<double>(picture.width) * quotient(grid.height, picture.height));
    inside.left = (grid.width - width) / 2;
    inside.width = grid.width - 2 * inside.left;
  }
  return inside;
}

int64_t most_of_aspect_ratio(const Config& config) {
  constexpr const char* kField = "vision_aspect_ratio";
  constexpr std::string_view kKind = "anyres_max_";
  constexpr int64_t kMost = 1 << 16;
  const std::string said = config.get_string(kField, "anyres_max_9");
  int64_t most = 0;
  const bool known = said.starts_with(kKind);
  const char* const end = said.data() + said.size();
  if (known) {
    const auto [stop, error] = std::from_chars(said.data() + kKind.size(), end, most);
    if (error != std::errc() || stop != end) most = 0;
  }
  if (most < 1 || most > kMost)
    fail("{}: {}: expected \"anyres_max_N\" with N from 1 to {}, found {}", config.where(), kField, kMost,
         quoted(said));
  return most;
}

PictureSize fewer_places(const GridInside& inside, int64_t side, int64_t most) {
  if (most == 0) return {inside.height, inside.width};
  const double ratio = std::sqrt(quotient(inside.height * inside.width, most * side * side));
  if (!(ratio > 1.1)) return {inside.height, inside.width};
  const PictureSize fewer{floor_quotient(inside.height, ratio), floor_quotient(inside.width, ratio)};
  if (fewer.height < 1 || fewer.width < 1)
    fail("a picture with {} x {} places in its grid has none left of the {} parts that vision_aspect_ratio admits",
         inside.width, inside.height, most);
  return fewer;
}

}  // namespace transom
