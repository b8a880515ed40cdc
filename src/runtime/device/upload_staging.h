// SPDX-License-Identifier: Apache-2.0
// Uploads that the host does not wait for: bytes are copied into pinned memory, and from there by the device, on a
// stream of its own beside what it computes.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/device/device.h"

namespace transom {

// Starts an upload into a buffer that no work on the device's stream knows yet; what is issued to that stream
// afterwards comes behind it. `from` may be changed when it returns. False where the device has no pinned memory or no
// events, or where so many bytes are better copied from where they are; then nothing was done.
bool start_upload(const Device& device, std::span<const std::byte> from, const Buffer& to);

// Frees the pinned memory of a device that is about to be closed.
void end_uploads(const Device& device);

}  // namespace transom
