// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/torch_order.h"

#include <algorithm>
#include <memory>

#include "files/family/family.h"

namespace transom {
namespace {

struct Module {
  std::string name;
  std::vector<size_t> parameters;
  std::vector<std::unique_ptr<Module>> parts;

  Module& part(std::string_view wanted) {
    for (const auto& each : parts)
      if (each->name == wanted) return *each;
    parts.push_back(std::make_unique<Module>());
    parts.back()->name = wanted;
    return *parts.back();
  }

  void add(std::string_view path, size_t index) {
    const size_t dot = path.find('.');
    if (dot == path.npos) parameters.push_back(index);
    else part(path.substr(0, dot)).add(path.substr(dot + 1), index);
  }

  void collect(const std::vector<LatePart>& late_parts, std::vector<size_t>& order) {
    const auto is_late = [&](const auto& each) {
      return std::any_of(late_parts.begin(), late_parts.end(),
                         [&](const LatePart& late) { return late.module == name && late.part == each->name; });
    };
    std::stable_partition(parts.begin(), parts.end(), [&](const auto& each) { return !is_late(each); });
    order.insert(order.end(), parameters.begin(), parameters.end());
    for (const auto& each : parts) each->collect(late_parts, order);
  }
};

}  // namespace

std::vector<size_t> torch_order(const std::vector<std::string>& names, std::string_view model_type, bool body_first) {
  const Family* family = find_family(model_type);
  std::vector<LatePart> late_parts = family ? *family->weights.late_parts : std::vector<LatePart>{};
  if (body_first) std::erase_if(late_parts, [](const LatePart& late) { return late.from_version_5; });
  const bool has_late_body = std::any_of(late_parts.begin(), late_parts.end(),
                                         [&](const LatePart& late) { return late.part == family->base_prefix; });
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  // A tied tensor is listed where it is met first: before the body, that is in the head.
  const bool tied_in_head = has_late_body && has("lm_head.bias") && !has("lm_head.decoder.weight");
  const std::string words = (family ? family->base_prefix : "") + ".embeddings.word_embeddings.weight";
  Module root;
  std::vector<size_t> last;
  for (size_t i = 0; i < names.size(); ++i) {
    if (tied_in_head && names[i] == words) last.push_back(i);
    else root.add(names[i], i);
  }
  for (const size_t i : last) root.add("lm_head.decoder.weight", i);
  std::vector<size_t> order;
  root.collect(late_parts, order);
  return order;
}

}  // namespace transom
