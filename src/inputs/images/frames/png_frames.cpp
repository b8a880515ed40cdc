// SPDX-License-Identifier: Apache-2.0
#include "inputs/images/frames/png_frames.h"

#include <zlib.h>

#include <cstring>
#include <utility>

#include "base/error.h"

namespace transom {
namespace {

constexpr size_t kHeaderBytes = 13, kControlBytes = 26, kNumberBytes = 4;

uint32_t big_number(Bytes bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(bytes[at + i]);
  return value;
}

void append_big(std::string& to, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift & 255);
}

uint32_t checksum_of(const char* bytes, size_t size) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const unsigned char*>(bytes), size));
}

void append_bytes(std::string& to, Bytes bytes) {
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void append_chunk(std::string& to, std::string_view type, Bytes data) {
  append_big(to, static_cast<uint32_t>(data.size()));
  const size_t begin = to.size();
  to += type;
  append_bytes(to, data);
  append_big(to, checksum_of(to.data() + begin, to.size() - begin));
}

// Pillow's mean of two levels, weighted by an alpha.
uint8_t mixed(uint8_t below, uint8_t above, uint8_t alpha) {
  const uint32_t sum = below * (255u - alpha) + above * uint32_t{alpha} + 128;
  return static_cast<uint8_t>(((sum >> 8) + sum) >> 8);
}

}  // namespace

bool is_animated_png(Bytes bytes) {
  if (!begins(bytes, kPngMark)) return false;
  for (size_t at = kPngMark.size(); bytes.size() - at >= 12;) {
    const size_t size = big_number(bytes, at);
    const std::string_view type(reinterpret_cast<const char*>(bytes.data()) + at + 4, 4);
    if (type == "acTL") return true;
    if (type == "IDAT" || size > bytes.size() - at - 12) return false;
    at += 12 + size;
  }
  return false;
}

PngFrames::PngFrames(Bytes bytes, std::string where) : where_(std::move(where)), rest_(bytes.subspan(kPngMark.size())) {
  const std::optional<Chunk> first = next_chunk();
  if (!first || first->type != "IHDR" || first->data.size() != kHeaderBytes)
    fail("{}: a broken PNG file: it does not begin with IHDR", where_);
  header_ = first->data;
  width_ = big_number(header_, 0), height_ = big_number(header_, 4);
  expect_canvas(where_, width_, height_);
}

std::optional<PngFrames::Chunk> PngFrames::next_chunk() {
  if (pushed_) return std::exchange(pushed_, std::nullopt);
  if (rest_.empty()) return std::nullopt;
  if (rest_.size() < 12 || big_number(rest_, 0) > rest_.size() - 12)
    fail("{}: a broken PNG file: a chunk ends behind the file", where_);
  const size_t size = big_number(rest_, 0);
  const char* begin = reinterpret_cast<const char*>(rest_.data());
  const Chunk chunk{{begin + 4, 4}, rest_.subspan(8, size), rest_.first(size + 12)};
  if (checksum_of(begin + 4, size + 4) != big_number(rest_, size + 8))
    fail("{}: a broken PNG file: the checksum of a chunk is wrong", where_);
  rest_ = rest_.subspan(size + 12);
  return chunk;
}

PngFrames::Frame PngFrames::frame_of(const Chunk& control) const {
  if (control.data.size() != kControlBytes) fail("{}: a broken PNG file: fcTL of another length", where_);
  const auto disposal = std::to_integer<int>(control.data[24]), blend = std::to_integer<int>(control.data[25]);
  const Frame frame{big_number(control.data, 4),  big_number(control.data, 8),     big_number(control.data, 12),
                    big_number(control.data, 16), static_cast<Disposal>(disposal), blend == 1};
  if (disposal > 2 || blend > 1) fail("{}: a broken PNG file: fcTL with an unknown operation", where_);
  if (frame.width < 1 || frame.height < 1 || frame.left > width_ - frame.width || frame.top > height_ - frame.height)
    fail(
        "{}: a PNG file with a frame of {} x {} pixels from ({}, {}) on: expected that it lies on the canvas of {} x "
        "{}",
        where_, frame.width, frame.height, frame.left, frame.top, width_, height_);
  return frame;
}

// Reads up to the data of the next frame, whose first chunk is pushed back.
std::optional<PngFrames::Frame> PngFrames::find_frame() {
  std::optional<Frame> frame;
  while (const std::optional<Chunk> chunk = next_chunk()) {
    if (chunk->type == "IEND") break;
    if (chunk->type == "PLTE" || chunk->type == "tRNS") {
      if (!last_ && !frame && palette_.size() < 2) palette_.push_back(chunk->whole);
    } else if (chunk->type == "fcTL") {
      if (frame) fail("{}: a broken PNG file: a frame without a picture", where_);
      frame = frame_of(*chunk);
    } else if (chunk->type == "fdAT" || chunk->type == "IDAT") {
      if (!frame && chunk->type == "IDAT") continue;  // a picture beside the animation
      if (!frame) fail("{}: a broken PNG file: a picture of no frame", where_);
      pushed_ = chunk;
      return frame;
    }
  }
  if (frame) fail("{}: a broken PNG file: a frame without a picture", where_);
  return std::nullopt;
}

// A PNG of the frame alone.
std::string PngFrames::picture_of(const Frame& frame) {
  std::string header;
  append_big(header, static_cast<uint32_t>(frame.width));
  append_big(header, static_cast<uint32_t>(frame.height));
  append_bytes(header, header_.subspan(8));
  std::string picture(kPngMark);
  append_chunk(picture, "IHDR", std::as_bytes(std::span(header)));
  for (const Bytes chunk : palette_) append_bytes(picture, chunk);
  while (const std::optional<Chunk> chunk = next_chunk()) {
    const bool numbered = chunk->type == "fdAT";
    if (!numbered && chunk->type != "IDAT") {
      pushed_ = chunk;
      break;
    }
    if (numbered && chunk->data.size() < kNumberBytes) fail("{}: a broken PNG file: fdAT without a number", where_);
    append_chunk(picture, "IDAT", numbered ? chunk->data.subspan(kNumberBytes) : chunk->data);
  }
  append_chunk(picture, "IEND", {});
  return picture;
}

void PngFrames::leave() {
  if (!last_ || last_->disposal == Disposal::kKeep) return;
  for (int64_t y = 0; y < last_->height; ++y) {
    uint8_t* to = canvas_.row(last_->top + y) + 3 * last_->left;
    const auto size = static_cast<size_t>(3 * last_->width);
    if (under_.height > 0) std::memcpy(to, under_.row(y), size);
    else std::memset(to, 0, size);
  }
}

void PngFrames::draw(const Frame& frame, const ImageLayer& layer) {
  for (int64_t y = 0; y < frame.height; ++y) {
    uint8_t* to = canvas_.row(frame.top + y) + 3 * frame.left;
    const uint8_t* from = layer.pixels.data() + 4 * frame.width * y;
    for (int64_t x = 0; x < frame.width; ++x, to += 3, from += 4)
      for (size_t c = 0; c < 3; ++c) to[c] = frame.over && last_ ? mixed(to[c], from[c], from[3]) : from[c];
  }
}

bool PngFrames::next() {
  const std::optional<Frame> frame = find_frame();
  if (!frame) return false;
  const std::string picture = picture_of(*frame);
  const ImageLayer layer = decode_png_layer(std::as_bytes(std::span(picture)), where_);
  if (canvas_.width == 0) canvas_ = Image(width_, height_);
  leave();
  // Before the first frame there is nothing: what it leaves is the background.
  under_ = frame->disposal == Disposal::kPrevious && last_
               ? crop(canvas_, frame->left, frame->top, frame->width, frame->height)
               : Image();
  draw(*frame, layer);
  last_ = frame;
  return true;
}

bool PngFrames::skip() {
  last_ = find_frame();
  if (!last_) return false;
  while (const std::optional<Chunk> chunk = next_chunk())
    if (chunk->type != "fdAT" && chunk->type != "IDAT") {
      pushed_ = chunk;
      break;
    }
  return true;
}

}  // namespace transom
