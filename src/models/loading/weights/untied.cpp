// SPDX-License-Identifier: Apache-2.0
#include "models/loading/weights/untied.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/load_changed.h"
#include "models/loading/weights/missing_weights.h"
#include "models/records.h"

namespace transom {
namespace {

constexpr std::array<std::string_view, 5> kTables = {"embed_tokens", "wte", "word_embeddings", "embed_in", "shared"};

std::string_view last_word(std::string_view module) { return module.substr(module.rfind('.') + 1); }

bool is_table(const std::string& name) {
  constexpr std::string_view kEnding = ".weight";
  if (!name.ends_with(kEnding)) return false;
  const std::string_view module = last_word(std::string_view(name).substr(0, name.size() - kEnding.size()));
  return std::find(kTables.begin(), kTables.end(), module) != kTables.end();
}

template <typename Holds>
std::shared_ptr<Parameter> find(const Model& model, Holds holds) {
  for (const auto* group : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *group)
      if (holds(*parameter)) return parameter;
  return nullptr;
}

// The weight of the layer over the vocabulary, where it has one of its own.
std::shared_ptr<Parameter> find_head(const Model& model) {
  const std::vector<std::string>& modules = *head_of(model).vocabulary;
  return find(model, [&](const Parameter& parameter) {
    return std::any_of(modules.begin(), modules.end(),
                       [&](const std::string& module) { return parameter.name == module + ".weight"; });
  });
}

}  // namespace

bool parts_shared_weight(const Model& model, const AdapterConfig& config) {
  const std::vector<std::string>& heads = *head_of(model).vocabulary;
  if (heads.empty() || find_head(model)) return false;
  const std::vector<std::string> saved = config.modules_to_save();
  for (const std::string& name : saved)
    if (std::any_of(heads.begin(), heads.end(),
                    [&](const std::string& head) { return last_word(head) == last_word(name); }))
      return true;
  const AdapterKind& kind = config.kind();
  const bool puts_beside = kind.attach && kind.takes_linear && config.says_targets();
  if (puts_beside)
    for (const std::string& head : heads)
      if (config.targets(head, true)) return true;
  return find(model, [&](const Parameter& parameter) {
           if (!is_table(parameter.name)) return false;
           const std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
           return config.saves(parameter.name) ||
                  (puts_beside && kind.takes_tables && !config.targets_all() && config.targets(module, false));
         }) != nullptr;
}

std::unique_ptr<Model> load_base(const std::string& directory, const AdapterConfig& config, const LoadOptions& options,
                                 LoadReport* report) {
  std::unique_ptr<Model> tied = Model::from_pretrained(directory, options, report);
  if (!parts_shared_weight(*tied, config)) return tied;
  LoadReport of_untied;
  std::unique_ptr<Model> model = load_changed(directory, {{"tie_word_embeddings", false}}, options, &of_untied);
  const std::shared_ptr<Parameter> head = find_head(*model);
  const std::shared_ptr<Parameter> table = head && head->value.defined()
                                               ? find(*model,
                                                      [&](const Parameter& parameter) {
                                                        return is_table(parameter.name) && parameter.value.defined() &&
                                                               parameter.value.shape() == head->value.shape();
                                                      })
                                               : nullptr;
  if (!table)
    fail(ErrorKind::kUnsupported,
         "{}: modules_to_save and target_modules: the head of {} shares its weight, which is not carried out for this "
         "model; save the base model with a head of its own",
         config.where(), tied->architecture());
  if (std::erase(of_untied.missing, head->name) > 0) {
    head->value = table->value.detach();
    head->value.set_requires_grad();
  }
  if (report) *report = std::move(of_untied);
  else warn_of_missing(of_untied, directory);
  return model;
}

}  // namespace transom
