// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/rollouts/of_processes.h"

#include <cstring>
#include <string>

#include "base/error.h"
#include "runtime/distributed/process_group.h"

namespace transom {

std::vector<float> of_all_processes(const std::vector<float>& mine) {
  ProcessGroup* group = process_group();
  if (!group) return mine;
  std::vector<float> all;
  for (const std::string& bytes : group->all_gather({reinterpret_cast<const char*>(mine.data()), mine.size() * 4})) {
    if (bytes.size() != mine.size() * 4)
      fail(ErrorKind::kDevice, "completions: another process sent {} bytes, expected {}", bytes.size(),
           mine.size() * 4);
    std::vector<float> values(mine.size());
    std::memcpy(values.data(), bytes.data(), bytes.size());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<std::string> SharedWork::all(const std::string& mine) const {
  ProcessGroup* group = processes > 1 ? process_group() : nullptr;
  if (!group) return {mine};
  return group->all_gather(mine);
}

}  // namespace transom
