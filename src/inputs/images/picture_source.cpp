// SPDX-License-Identifier: Apache-2.0
#include "inputs/images/picture_source.h"

#include "base/error.h"
#include "base/text/base64.h"

namespace transom {

Image read_picture(const std::string& source) {
  if (!source.starts_with("data:")) return read_image(source);
  constexpr std::string_view kMark = ";base64,";
  const size_t mark = source.find(kMark);
  require(mark != source.npos && mark < 100, "an image: expected data:image/...;base64,..., found {}",
          quoted(source.substr(0, 40)));
  const std::string bytes = from_base64(std::string_view(source).substr(mark + kMark.size()), "an image");
  return decode_image(std::as_bytes(std::span(bytes)), "an image");
}

}  // namespace transom
