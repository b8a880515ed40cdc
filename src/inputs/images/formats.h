// SPDX-License-Identifier: Apache-2.0
// One reader for each file format, without orientation. Each refuses what is broken or too large with an Error.
#pragma once

#include <optional>

#include "inputs/images/image.h"

namespace transom {

using Bytes = std::span<const std::byte>;

Image decode_png(Bytes bytes, const std::string& where);
Image decode_jpeg(Bytes bytes, const std::string& where);
Image decode_webp(Bytes bytes, const std::string& where);
Image decode_gif(Bytes bytes, const std::string& where);
Image decode_bmp(Bytes bytes, const std::string& where);

// The orientation (1 to 8) that the EXIF data of a PNG, JPEG or WebP file say; 1 where they say none.
int exif_orientation(Bytes file);
// Turned and mirrored as the orientation says.
Image oriented(Image image, int orientation);

}  // namespace transom
