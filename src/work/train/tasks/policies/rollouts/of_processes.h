// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace transom {

// Lists of all processes, one behind the other; each gives as many.
std::vector<float> of_all_processes(const std::vector<float>& mine);

}  // namespace transom
