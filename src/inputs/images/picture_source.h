// SPDX-License-Identifier: Apache-2.0
// Pictures by what names them in a text: a path, or a URL that holds the picture itself.
#pragma once

#include <string>

#include "inputs/images/image.h"

namespace transom {

// A file, or a picture in the text: "data:image/png;base64,..." (RFC 2397).
Image read_picture(const std::string& source);

}  // namespace transom
