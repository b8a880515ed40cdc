// SPDX-License-Identifier: Apache-2.0
// Whether all ranks of a group have issued the same collectives: else a sum adds what does not belong together, or a
// rank waits for ever.
#include <map>

#include "base/error.h"
#include "runtime/device/flight_recorder.h"
#include "runtime/distributed/collective_wait.h"
#include "runtime/distributed/process_group.h"

namespace transom {
namespace {

struct Sequence {
  int64_t rank = 0;  // the first that told of it
  std::string count, hash;
};

// What is wrong; empty: nothing.
std::string difference_of(const std::vector<std::string>& told) {
  std::map<std::string, Sequence> known;
  for (size_t rank = 0; rank < told.size(); ++rank) {
    const auto groups = split_texts(told[rank]);
    for (size_t i = 0; groups && i + 2 < groups->size(); i += 3) {
      const auto [found, fresh] =
          known.try_emplace((*groups)[i], static_cast<int64_t>(rank), (*groups)[i + 1], (*groups)[i + 2]);
      const Sequence& first = found->second;
      if (first.hash == (*groups)[i + 2] && first.count == (*groups)[i + 1]) continue;
      return fmt::format(
          "rank {} has issued other collectives than rank {} among {}: {} and {} of them, of which kinds, "
          "types or sizes differ; all ranks need the same model, arguments and version",
          rank, first.rank, name_of_group((*groups)[i]), (*groups)[i + 1], first.count);
    }
  }
  return "";
}

}  // namespace

void ProcessGroup::expect_equal_collectives() {
  const std::string name = fmt::format("collectives #{}", comparisons_++);
  std::vector<std::string> mine;
  for (const auto& [group, progress] : recorder_->progress()) {
    mine.push_back(group);
    mine.push_back(std::to_string(progress.started));
    mine.push_back(fmt::format("{:016x}", progress.hash));
  }
  const std::vector<std::string> all = gather_on_main(name, joined_texts(mine));
  const std::string difference = from_main_by_name(name + "/answer", is_main() ? difference_of(all) : "");
  if (!difference.empty()) fail(ErrorKind::kDevice, "{}", difference);
}

}  // namespace transom
