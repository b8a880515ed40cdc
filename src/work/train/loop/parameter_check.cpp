// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/parameter_check.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "runtime/distributed/process_group.h"
#include "runtime/tensor/evaluate.h"

namespace transom {
namespace {

uint32_t check_sum_of(const std::vector<std::byte>& bytes) {
  return static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::vector<PartCopy> copies_here(const Model& model, ModelSharding* sharding) {
  std::vector<PartCopy> copies;
  const auto add = [&](const Parameter& parameter) {
    const Tensor& value = parameter.value;
    if (!value.defined()) return;
    if (!sharding || !sharding->tensors().holds(value)) {
      copies.push_back({parameter.name, check_sum_of(value.to_bytes())});
      return;
    }
    const ShardedTensors& tensors = sharding->tensors();
    if (tensors.is_absent(value)) return;
    const ShardedValue& part = tensors.value(value);
    const int64_t number = tensors.mesh().coordinate(part.placement.sharded());
    copies.push_back({fmt::format("{} (part {})", parameter.name, number), check_sum_of(part.local.to_bytes())});
  };
  for (const auto* group : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *group) add(*parameter);
  return copies;
}

std::string text_of_copies(const std::vector<PartCopy>& copies) {
  std::vector<std::string> fields;
  for (const PartCopy& copy : copies) {
    fields.push_back(copy.part);
    fields.push_back(std::to_string(copy.check_sum));
  }
  return joined_texts(fields);
}

std::vector<PartCopy> read_copies(const std::string& text) {
  const auto fields = split_texts(text);
  if (!fields || fields->size() % 2 != 0) fail(ErrorKind::kDevice, "another process sent no check sums");
  std::vector<PartCopy> copies;
  for (size_t i = 0; i < fields->size(); i += 2) {
    const std::string& number = (*fields)[i + 1];
    PartCopy copy{(*fields)[i], 0};
    if (std::from_chars(number.data(), number.data() + number.size(), copy.check_sum).ec != std::errc())
      fail(ErrorKind::kDevice, "another process sent no check sums");
    copies.push_back(std::move(copy));
  }
  return copies;
}

}  // namespace

std::optional<std::string> find_different_copies(const std::vector<std::vector<PartCopy>>& of_ranks) {
  std::vector<std::string> order;
  std::map<std::string, std::map<uint32_t, std::vector<size_t>>> ranks;  // by part and check sum
  for (size_t rank = 0; rank < of_ranks.size(); ++rank)
    for (const PartCopy& copy : of_ranks[rank]) {
      if (!ranks.contains(copy.part)) order.push_back(copy.part);
      ranks[copy.part][copy.check_sum].push_back(rank);
    }
  for (const std::string& part : order) {
    const auto& values = ranks.at(part);
    if (values.size() == 1) continue;
    size_t copies = 0, most = 0;
    for (const auto& [sum, who] : values) copies += who.size(), most = std::max(most, who.size());
    std::vector<size_t> others;
    for (const auto& [sum, who] : values)
      if (2 * most <= copies || who.size() < most) others.insert(others.end(), who.begin(), who.end());
    std::sort(others.begin(), others.end());
    const char* against = 2 * most <= copies ? "have different values" : "differs from most others";
    return fmt::format("{}: {} {} {}", part, others.size() == 1 ? "rank" : "ranks", fmt::join(others, ", "),
                       others.size() == 1 || 2 * most <= copies ? against : "differ from most others");
  }
  return std::nullopt;
}

void expect_equal_weights(const Model& model) {
  ProcessGroup* group = process_group();
  if (!group) return;
  constexpr size_t kBytes = 4096;  // files of other weights differ there
  std::vector<PartCopy> mine;
  for (const auto* weights : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *weights) {
      if (!parameter->value.defined()) continue;
      const auto buffer = buffer_of(parameter->value);
      std::vector<std::byte> bytes(std::min(kBytes, buffer->bytes()));
      buffer->read(bytes);
      const std::string type = to_string(parameter->value.type());
      for (const char letter : type) bytes.push_back(static_cast<std::byte>(letter));
      mine.push_back({parameter->name, check_sum_of(bytes)});
    }
  const std::string text = text_of_copies(mine);
  // The sums of all weights only where something differs.
  const std::string all = std::to_string(check_sum_of({reinterpret_cast<const std::byte*>(text.data()),
                                                       reinterpret_cast<const std::byte*>(text.data() + text.size())}));
  const std::vector<std::string> sums = group->all_gather(all);
  if (std::all_of(sums.begin(), sums.end(), [&](const std::string& sum) { return sum == sums[0]; })) return;
  std::vector<std::vector<PartCopy>> of_ranks;
  for (const std::string& other : group->all_gather(text)) of_ranks.push_back(read_copies(other));
  fail(ErrorKind::kUsage, "the processes begin with different weights: {}; give all of them the same model and seed",
       find_different_copies(of_ranks).value_or("some have weights that others lack"));
}

void expect_equal_copies(const Model& model, ModelSharding* sharding, int64_t updates) {
  ProcessGroup* group = process_group();
  if (!group) return;
  std::vector<std::vector<PartCopy>> of_ranks;
  for (const std::string& text : group->all_gather(text_of_copies(copies_here(model, sharding))))
    of_ranks.push_back(read_copies(text));
  if (const auto difference = find_different_copies(of_ranks))
    fail(ErrorKind::kDevice,
         "after update {} the processes have different parameters: {}; memory or a link is broken there: resume from "
         "the last checkpoint without it",
         updates, *difference);
}

}  // namespace transom
