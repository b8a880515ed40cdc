// SPDX-License-Identifier: Apache-2.0
#include "train/files/torch_order.h"

#include <algorithm>
#include <memory>

namespace transom {
namespace {

// A part that Transformers makes after the other parts of its module, unlike what the order of computation suggests.
struct LatePart {
  std::string_view model_type, module, part;  // the module by the end of its path; empty: the whole model
};
constexpr LatePart kLateParts[] = {{"roberta", "embeddings", "position_embeddings"},
                                   {"camembert", "embeddings", "position_embeddings"},
                                   {"xlm-roberta", "embeddings", "position_embeddings"},
                                   {"mpnet", "encoder", "relative_attention_bias"},
                                   {"electra", "", "classifier"}};
// The bodies that come after the heads since version 5.
constexpr LatePart kLateBodies[] = {{"camembert", "", "roberta"}, {"xlm-roberta", "", "roberta"}};

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

  void collect(std::string_view model_type, bool body_first, std::vector<size_t>& order) {
    const auto is_late = [&](const auto& each) {
      const auto names = [&](const LatePart& late) {
        return late.model_type == model_type && late.module == name && late.part == each->name;
      };
      return std::any_of(std::begin(kLateParts), std::end(kLateParts), names) ||
             (!body_first && std::any_of(std::begin(kLateBodies), std::end(kLateBodies), names));
    };
    std::stable_partition(parts.begin(), parts.end(), [&](const auto& each) { return !is_late(each); });
    order.insert(order.end(), parameters.begin(), parameters.end());
    for (const auto& each : parts) each->collect(model_type, body_first, order);
  }
};

}  // namespace

std::vector<size_t> torch_order(const std::vector<std::string>& names, std::string_view model_type, bool body_first) {
  const bool has_late_body =
      !body_first && std::any_of(std::begin(kLateBodies), std::end(kLateBodies),
                                 [&](const LatePart& late) { return late.model_type == model_type; });
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  // A tied tensor is listed where it is met first: before the body, that is in the head.
  const bool tied_in_head = has_late_body && has("lm_head.bias") && !has("lm_head.decoder.weight");
  constexpr std::string_view kWords = "roberta.embeddings.word_embeddings.weight";
  Module root;
  std::vector<size_t> last;
  for (size_t i = 0; i < names.size(); ++i) {
    if (tied_in_head && names[i] == kWords) last.push_back(i);
    else root.add(names[i], i);
  }
  for (const size_t i : last) root.add("lm_head.decoder.weight", i);
  std::vector<size_t> order;
  root.collect(model_type, body_first, order);
  return order;
}

}  // namespace transom
