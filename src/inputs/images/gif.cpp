// SPDX-License-Identifier: Apache-2.0
// GIF by giflib: the first frame on its canvas, as Pillow shows it.
#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "inputs/images/formats.h"

namespace transom {
namespace {

int read_gif_bytes(GifFileType* gif, GifByteType* to, int count) {
  auto* rest = static_cast<Bytes*>(gif->UserData);
  const size_t size = std::min(static_cast<size_t>(std::max(count, 0)), rest->size());
  std::memcpy(to, rest->data(), size);
  *rest = rest->subspan(size);
  return static_cast<int>(size);
}

struct Close {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

}  // namespace

Image decode_gif(Bytes bytes, const std::string& where) {
  Bytes rest = bytes;
  int error = 0;
  const std::unique_ptr<GifFileType, Close> gif(DGifOpen(&rest, read_gif_bytes, &error));
  const auto broken = [&]() { fail("{}: a broken GIF file", where); };
  if (!gif) broken();
  int transparent = -1;
  while (true) {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif.get(), &type) == GIF_ERROR) broken();
    if (type == IMAGE_DESC_RECORD_TYPE) break;
    if (type != EXTENSION_RECORD_TYPE) fail("{}: a GIF file without an image", where);
    int code = 0;
    GifByteType* extension = nullptr;
    if (DGifGetExtension(gif.get(), &code, &extension) == GIF_ERROR) broken();
    GraphicsControlBlock control;
    if (code == GRAPHICS_EXT_FUNC_CODE && extension && extension[0] >= 4 &&
        DGifExtensionToGCB(extension[0], extension + 1, &control) == GIF_OK)
      transparent = control.TransparentColor;
    while (extension)
      if (DGifGetExtensionNext(gif.get(), &extension) == GIF_ERROR) broken();
  }
  if (DGifGetImageDesc(gif.get()) == GIF_ERROR) broken();
  const GifImageDesc& frame = gif->Image;
  if (frame.Left < 0 || frame.Top < 0 || frame.Width < 1 || frame.Height < 1) broken();

  Image image(std::max(gif->SWidth, frame.Left + frame.Width), std::max(gif->SHeight, frame.Top + frame.Height));
  const ColorMapObject* map = frame.ColorMap ? frame.ColorMap : gif->SColorMap;
  const auto paint = [&](uint8_t* to, int index) {
    if (!map) std::memset(to, index, 3);
    else if (index < map->ColorCount) {
      const GifColorType& color = map->Colors[index];
      to[0] = color.Red, to[1] = color.Green, to[2] = color.Blue;
    } else std::memset(to, 0, 3);
  };
  if (transparent >= 0) {
    image.transparent.emplace();
    paint(image.transparent->data(), transparent);
  }
  // What the frame does not cover has the transparent colour, or the first one.
  for (size_t i = 0; i < image.pixels.size(); i += 3) paint(&image.pixels[i], std::max(transparent, 0));
  std::vector<GifPixelType> line(static_cast<size_t>(frame.Width));
  const auto read_line = [&](int y) {
    if (DGifGetLine(gif.get(), line.data(), frame.Width) == GIF_ERROR) broken();
    uint8_t* to = image.row(frame.Top + y) + 3 * frame.Left;
    for (int x = 0; x < frame.Width; ++x) paint(to + 3 * x, line[static_cast<size_t>(x)]);
  };
  if (frame.Interlace) {
    constexpr int kStart[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
    for (int pass = 0; pass < 4; ++pass)
      for (int y = kStart[pass]; y < frame.Height; y += kStep[pass]) read_line(y);
  } else {
    for (int y = 0; y < frame.Height; ++y) read_line(y);
  }
  return image;
}

}  // namespace transom
