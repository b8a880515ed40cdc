// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/output/drawn_boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace transom {
namespace {

using Color = std::array<uint8_t, 3>;
constexpr Color kPalette[] = {{220, 50, 47}, {38, 139, 210}, {90, 160, 20},  {211, 54, 200},
                              {230, 150, 0}, {0, 150, 150},  {108, 90, 220}, {150, 100, 50}};
constexpr Color kWhite{255, 255, 255};
constexpr int64_t kGlyphWidth = 3, kGlyphHeight = 5;

// Five rows of three dots, an octal digit each.
struct Glyph {
  char letter;
  uint16_t dots;
};
constexpr Glyph kGlyphs[] = {{' ', 000000}, {'A', 025755}, {'B', 065656}, {'C', 034443}, {'D', 065556}, {'E', 074647},
                             {'F', 074644}, {'G', 034553}, {'H', 055755}, {'I', 072227}, {'J', 011152}, {'K', 055655},
                             {'L', 044447}, {'M', 057755}, {'N', 065555}, {'O', 025552}, {'P', 065644}, {'Q', 025563},
                             {'R', 065655}, {'S', 034216}, {'T', 072222}, {'U', 055557}, {'V', 055552}, {'W', 055775},
                             {'X', 055255}, {'Y', 055222}, {'Z', 071247}, {'0', 075557}, {'1', 026227}, {'2', 071747},
                             {'3', 071717}, {'4', 055711}, {'5', 074717}, {'6', 074757}, {'7', 071111}, {'8', 075757},
                             {'9', 075717}, {'.', 000002}, {'-', 000700}, {'_', 000007}, {'%', 051245}, {'?', 071202}};

uint16_t dots_of(char letter) {
  const char upper = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  const auto* found =
      std::find_if(std::begin(kGlyphs), std::end(kGlyphs), [&](const Glyph& g) { return g.letter == upper; });
  return found == std::end(kGlyphs) ? std::prev(std::end(kGlyphs))->dots : found->dots;
}

// From (left, top) to before (right, bottom), as much of it as lies in the picture.
void fill_box(Image& image, int64_t left, int64_t top, int64_t right, int64_t bottom, Color color) {
  left = std::max<int64_t>(left, 0), right = std::min(right, image.width);
  for (int64_t y = std::max<int64_t>(top, 0); y < std::min(bottom, image.height); ++y)
    for (int64_t x = left; x < right; ++x) std::copy(color.begin(), color.end(), image.row(y) + 3 * x);
}

void draw_frame(Image& image, BoundingBox box, int64_t width, Color color) {
  // Far outside it is as far as just outside.
  const auto within = [&](int64_t x, int64_t extent) { return std::clamp<int64_t>(x, -2 * width, extent + 2 * width); };
  box = {within(box.xmin, image.width), within(box.ymin, image.height), within(box.xmax, image.width),
         within(box.ymax, image.height)};
  fill_box(image, box.xmin, box.ymin, box.xmax + 1, box.ymin + width, color);
  fill_box(image, box.xmin, box.ymax + 1 - width, box.xmax + 1, box.ymax + 1, color);
  fill_box(image, box.xmin, box.ymin, box.xmin + width, box.ymax + 1, color);
  fill_box(image, box.xmax + 1 - width, box.ymin, box.xmax + 1, box.ymax + 1, color);
}

// As wide as the text with a margin; its top left is moved so that the whole lies in the picture where it fits.
void draw_label(Image& image, int64_t left, int64_t top, std::string_view text, int64_t scale, Color color) {
  const int64_t height = (kGlyphHeight + 2) * scale;
  const auto length = static_cast<int64_t>(std::min<size_t>(text.size(), 1000)) * (kGlyphWidth + 1) * scale + scale;
  left = std::clamp<int64_t>(left, 0, std::max<int64_t>(image.width - length, 0));
  top = std::clamp<int64_t>(top, 0, std::max<int64_t>(image.height - height, 0));
  fill_box(image, left, top, left + length, top + height, color);
  draw_text(image, left + scale, top + scale, text, scale, kWhite);
}

int64_t scale_of_text(const Image& image) { return std::max<int64_t>(1, std::min(image.width, image.height) / 150); }

}  // namespace

void draw_text(Image& image, int64_t left, int64_t top, std::string_view text, int64_t scale, Color color) {
  for (const char letter : text) {
    if (left >= image.width) return;
    const uint16_t dots = dots_of(letter);
    for (int64_t y = 0; y < kGlyphHeight; ++y)
      for (int64_t x = 0; x < kGlyphWidth; ++x)
        if ((dots >> (kGlyphWidth * (kGlyphHeight - y) - 1 - x)) & 1)
          fill_box(image, left + x * scale, top + y * scale, left + (x + 1) * scale, top + (y + 1) * scale, color);
    left += (kGlyphWidth + 1) * scale;
  }
}

Picture with_boxes(const Image& image, const std::vector<DetectedObject>& objects) {
  Image drawn = image;
  const int64_t scale = scale_of_text(image), width = scale;
  std::vector<std::string> classes;
  for (const auto& [label, score, box] : objects) {
    auto place = std::find(classes.begin(), classes.end(), label);
    if (place == classes.end()) place = classes.insert(classes.end(), label);
    const Color color = kPalette[static_cast<size_t>(place - classes.begin()) % std::size(kPalette)];
    draw_frame(drawn, box, width, color);
    const std::string text = fmt::format("{} {:.2f}", label, score);
    // Above the frame, or inside of it where there is no room.
    const int64_t height = (kGlyphHeight + 2) * scale;
    draw_label(drawn, box.xmin, box.ymin >= height ? box.ymin - height : box.ymin, text, scale, color);
  }
  return {drawn.width, drawn.height, 3, std::move(drawn.pixels)};
}

Picture with_segments(const Image& image, const std::vector<Segment>& segments) {
  Image drawn = image;
  struct Middle {
    int64_t x = 0, y = 0, count = 0;
  };
  std::vector<Middle> middles;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Picture& mask = segments[i].mask;
    const auto* levels = std::get_if<std::vector<uint8_t>>(&mask.values);
    Middle& middle = middles.emplace_back();
    if (!levels || std::ssize(*levels) != mask.width * mask.height) continue;
    const Color color = kPalette[i % std::size(kPalette)];
    for (int64_t y = 0; y < std::min(mask.height, drawn.height); ++y)
      for (int64_t x = 0; x < std::min(mask.width, drawn.width); ++x) {
        if ((*levels)[static_cast<size_t>(y * mask.width + x)] == 0) continue;
        uint8_t* pixel = drawn.row(y) + 3 * x;
        for (size_t c = 0; c < 3; ++c) pixel[c] = static_cast<uint8_t>((pixel[c] + color[c]) / 2);
        middle.x += x, middle.y += y, ++middle.count;
      }
  }
  const int64_t scale = scale_of_text(image);
  for (size_t i = 0; i < segments.size(); ++i) {
    const Middle& middle = middles[i];
    if (middle.count == 0) continue;
    const std::string text =
        segments[i].score ? fmt::format("{} {:.2f}", segments[i].label, *segments[i].score) : segments[i].label;
    draw_label(drawn, middle.x / middle.count, middle.y / middle.count, text, scale, kPalette[i % std::size(kPalette)]);
  }
  return {drawn.width, drawn.height, 3, std::move(drawn.pixels)};
}

}  // namespace transom
