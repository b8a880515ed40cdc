// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace transom {

// Lists of all processes, one behind the other; each gives as many.
std::vector<float> of_all_processes(const std::vector<float>& mine);

// Items that processes share to compute, each those from `begin` to `end`: what each made of its own becomes what all
// have.
struct SharedWork {
  int64_t processes = 1, process = 0;

  std::pair<size_t, size_t> range(size_t items) const {
    const auto at = [&](int64_t p) { return items * static_cast<size_t>(p) / static_cast<size_t>(processes); };
    return {at(process), at(process + 1)};
  }
  // Texts of all processes, in their order.
  std::vector<std::string> all(const std::string& mine) const;
  // That of the first process.
  std::string of_first(const std::string& mine) const { return all(process == 0 ? mine : "").front(); }
};

}  // namespace transom
