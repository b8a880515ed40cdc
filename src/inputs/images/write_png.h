// SPDX-License-Identifier: Apache-2.0
// Pictures as PNG files, by libpng. The same picture gives the same bytes.
#pragma once

#include <filesystem>
#include <string>

#include "transom/media.h"

namespace transom {

// The bytes of a PNG file, of 8 or 16 bits as the picture has them. `where` names the picture in errors. Refuses
// extents outside of 1 to 1,000,000, more pixels than the reader takes (kMaxPixels), and values that are fewer or more
// than the extents say.
std::string encode_png(const Picture& picture, const std::string& where = "a picture");
// The file appears whole or not at all.
void write_png(const std::filesystem::path& path, const Picture& picture);

}  // namespace transom
