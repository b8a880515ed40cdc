// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/files/files.h"

namespace transom {

// Loads the plugin in a child process and asks it for its devices there, so that a library that crashes or hangs while
// it is loaded takes nobody with it. Throws an Error of kind kDevice that names the file and the signal. What the
// plugin itself reports is left to the load that follows. Each file is tried once in a process.
void probe_plugin(const fs::path& file);

}  // namespace transom
