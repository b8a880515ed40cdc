// SPDX-License-Identifier: Apache-2.0
#include "inputs/images/frames/gif_frames.h"

#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"

namespace transom {
namespace {

using Colour = std::array<uint8_t, 3>;

constexpr int kToBackground = 2;  // how a frame leaves the canvas; above: as it was before. Below: as it is

int read_gif_bytes(GifFileType* gif, GifByteType* to, int count) {
  auto* rest = static_cast<Bytes*>(gif->UserData);
  const size_t size = std::min(static_cast<size_t>(std::max(count, 0)), rest->size());
  std::memcpy(to, rest->data(), size);
  *rest = rest->subspan(size);
  return static_cast<int>(size);
}

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

}  // namespace

struct GifFrames::State {
  std::string where;
  Bytes rest;
  std::unique_ptr<GifFileType, CloseGif> gif;
  Image canvas;
  bool begun = false;
  int transparent = -1;  // of the frame that is read; -1: none
  int disposal = 0;      // of the last frame that says one, as Pillow has it
  // What becomes of the last frame's part of the canvas before the next one is drawn: a colour, or what was there; it
  // stays where neither is.
  int64_t left = 0, top = 0, width = 0, height = 0;
  std::optional<Colour> fill;
  Image under;

  [[noreturn]] void broken() const { fail("{}: a broken GIF file", where); }
  const ColorMapObject* map() const { return gif->Image.ColorMap ? gif->Image.ColorMap : gif->SColorMap; }
  Colour colour(int index) const {
    const ColorMapObject* colours = map();
    if (!colours) return {static_cast<uint8_t>(index), static_cast<uint8_t>(index), static_cast<uint8_t>(index)};
    if (index >= colours->ColorCount) return {};
    const GifColorType& found = colours->Colors[index];
    return {found.Red, found.Green, found.Blue};
  }
  bool find_frame();
  void begin_canvas();
  void leave();
  void prepare_leaving();
  void draw();
};

// Reads what stands before the next frame; false where none follows.
bool GifFrames::State::find_frame() {
  transparent = -1;
  while (true) {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif.get(), &type) == GIF_ERROR) {
      if (begun && rest.empty()) return false;  // an end that is not marked
      broken();
    }
    if (type == IMAGE_DESC_RECORD_TYPE) break;
    if (type != EXTENSION_RECORD_TYPE) {
      if (!begun) fail("{}: a GIF file without an image", where);
      return false;
    }
    int code = 0;
    GifByteType* extension = nullptr;
    if (DGifGetExtension(gif.get(), &code, &extension) == GIF_ERROR) broken();
    GraphicsControlBlock control;
    if (code == GRAPHICS_EXT_FUNC_CODE && extension && extension[0] >= 4 &&
        DGifExtensionToGCB(extension[0], extension + 1, &control) == GIF_OK) {
      transparent = control.TransparentColor;
      if (control.DisposalMode != 0) disposal = control.DisposalMode;
    }
    while (extension)
      if (DGifGetExtensionNext(gif.get(), &extension) == GIF_ERROR) broken();
  }
  if (DGifGetImageDesc(gif.get()) == GIF_ERROR) broken();
  const GifImageDesc& frame = gif->Image;
  if (frame.Left < 0 || frame.Top < 0 || frame.Width < 1 || frame.Height < 1) broken();
  return true;
}

// What the first frame does not cover has the transparent colour, or the first one.
void GifFrames::State::begin_canvas() {
  const GifImageDesc& frame = gif->Image;
  const int width = std::max(gif->SWidth, frame.Left + frame.Width);
  const int height = std::max(gif->SHeight, frame.Top + frame.Height);
  expect_canvas(where, width, height);
  canvas = Image(width, height);
  if (transparent >= 0) canvas.transparent = colour(transparent);
  const Colour around = colour(std::max(transparent, 0));
  for (size_t i = 0; i < canvas.pixels.size(); i += 3) std::memcpy(&canvas.pixels[i], around.data(), 3);
}

void GifFrames::State::leave() {
  for (int64_t y = 0; y < height; ++y) {
    uint8_t* to = canvas.row(top + y) + 3 * left;
    if (fill)
      for (int64_t x = 0; x < width; ++x) std::memcpy(to + 3 * x, fill->data(), 3);
    else if (under.height > 0) std::memcpy(to, under.row(y), static_cast<size_t>(3 * width));
  }
}

// Before the frame is drawn.
void GifFrames::State::prepare_leaving() {
  const GifImageDesc& frame = gif->Image;
  left = frame.Left, top = frame.Top, width = frame.Width, height = frame.Height;
  fill.reset();
  under = {};
  if (disposal < kToBackground) return;
  if (disposal > kToBackground && begun) {
    under = crop(canvas, left, top, width, height);
    return;
  }
  if (disposal > kToBackground && transparent < 0) return;  // there is nothing before the first frame
  int index = transparent >= 0 ? transparent : gif->SColorMap ? gif->SBackGroundColor : 0;
  if (begun && map() && index >= map()->ColorCount) index = 0;
  fill = colour(index);
}

void GifFrames::State::draw() {
  const GifImageDesc& frame = gif->Image;
  std::array<Colour, 256> colours{};
  for (int i = 0; i < 256; ++i) colours[static_cast<size_t>(i)] = colour(i);
  const int hole = begun ? transparent : -1;  // of the first frame the transparent colour is drawn
  std::vector<GifPixelType> line(static_cast<size_t>(frame.Width));
  const auto read_line = [&](int y) {
    if (DGifGetLine(gif.get(), line.data(), frame.Width) == GIF_ERROR) broken();
    uint8_t* to = canvas.row(frame.Top + y) + 3 * frame.Left;
    for (const GifPixelType index : line) {
      if (index != hole) std::memcpy(to, colours[index].data(), 3);
      to += 3;
    }
  };
  if (frame.Interlace) {
    constexpr int kStart[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
    for (int pass = 0; pass < 4; ++pass)
      for (int y = kStart[pass]; y < frame.Height; y += kStep[pass]) read_line(y);
  } else {
    for (int y = 0; y < frame.Height; ++y) read_line(y);
  }
}

GifFrames::GifFrames(Bytes bytes, std::string where) : state_(std::make_unique<State>()) {
  state_->where = std::move(where);
  state_->rest = bytes;
  int error = 0;
  state_->gif.reset(DGifOpen(&state_->rest, read_gif_bytes, &error));
  if (!state_->gif) state_->broken();
}

GifFrames::~GifFrames() = default;

bool GifFrames::next() {
  if (!state_->find_frame()) return false;
  const GifImageDesc& frame = state_->gif->Image;
  if (!state_->begun) {
    state_->begin_canvas();
  } else if (frame.Left + frame.Width > state_->canvas.width || frame.Top + frame.Height > state_->canvas.height) {
    fail(
        "{}: a GIF file with a frame of {} x {} pixels from ({}, {}) on: expected that it lies on the canvas of {} x "
        "{}",
        state_->where, frame.Width, frame.Height, frame.Left, frame.Top, state_->canvas.width, state_->canvas.height);
  }
  state_->leave();
  state_->prepare_leaving();
  state_->draw();
  state_->begun = true;
  return true;
}

bool GifFrames::skip() {
  if (!state_->find_frame()) return false;
  state_->begun = true;
  int size = 0;
  GifByteType* block = nullptr;
  if (DGifGetCode(state_->gif.get(), &size, &block) == GIF_ERROR) state_->broken();
  while (block)
    if (DGifGetCodeNext(state_->gif.get(), &block) == GIF_ERROR) state_->broken();
  return true;
}

const Image& GifFrames::canvas() const { return state_->canvas; }
Image GifFrames::take_canvas() { return std::move(state_->canvas); }

}  // namespace transom
