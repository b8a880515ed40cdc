// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace transom {

// What --version prints: the version, then what is inside: the libraries it was built with, and the plugins that lie
// beside it. No plugin is opened.
std::string version_text();

}  // namespace transom
