// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace transom {

// Width and height by the header of a PNG, JPEG, WebP, GIF or BMP file, before memory is taken for its pixels; empty
// where the header does not say, which decode_image() then refuses.
std::optional<std::array<int64_t, 2>> image_extents(std::span<const std::byte> file);

}  // namespace transom
