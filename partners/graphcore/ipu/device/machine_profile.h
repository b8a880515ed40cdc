// SPDX-License-Identifier: Apache-2.0
// What the emulator knows of a program, for people and for pages: clocks by IPU, the bytes of each tile, and what the
// program would take as a pipeline over the IPUs of a replica.
#pragma once

#include <string>
#include <string_view>

namespace ipu_emulator {
struct Compiled;
}

namespace transom::ipu {

// The line of a description behind which one JSON object stands.
inline constexpr std::string_view kMachineProfile = "machine profile: ";

std::string profile_text(const ipu_emulator::Compiled& compiled);
std::string profile_json(const ipu_emulator::Compiled& compiled);

}  // namespace transom::ipu
