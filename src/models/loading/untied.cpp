// SPDX-License-Identifier: Apache-2.0
#include "models/loading/untied.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/load_changed.h"
#include "models/loading/missing_weights.h"

namespace transom {
namespace {

constexpr std::array<std::string_view, 4> kHeads = {"lm_head", "embed_out", "proj_out", "decoder"};
constexpr std::array<std::string_view, 5> kTables = {"embed_tokens", "wte", "word_embeddings", "embed_in", "shared"};
constexpr std::array<std::string_view, 5> kLanguageModels = {"ForCausalLM", "LMHeadModel", "ForConditionalGeneration",
                                                             "MTModel", "ForMaskedLM"};

// Whether `name` is a weight of a module that one of these names.
template <size_t N>
bool is_weight_of(const std::string& name, const std::array<std::string_view, N>& modules) {
  constexpr std::string_view kEnding = ".weight";
  if (!name.ends_with(kEnding)) return false;
  const std::string_view path = std::string_view(name).substr(0, name.size() - kEnding.size());
  const std::string_view module = path.substr(path.rfind('.') + 1);
  return std::find(modules.begin(), modules.end(), module) != modules.end();
}

template <typename Holds>
std::shared_ptr<Parameter> find(const Model& model, Holds holds) {
  for (const auto* group : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *group)
      if (holds(*parameter)) return parameter;
  return nullptr;
}

bool is_language_head(const std::string& parameter) { return is_weight_of(parameter, kHeads); }

}  // namespace

bool saves_shared_weight(const Model& model, const LoraConfig& config) {
  const auto ends = [&](std::string_view ending) { return model.architecture().ends_with(ending); };
  if (std::none_of(kLanguageModels.begin(), kLanguageModels.end(), ends)) return false;
  if (find(model, [](const Parameter& parameter) { return is_language_head(parameter.name); })) return false;
  const std::vector<std::string> saved = config.modules_to_save();
  for (const std::string& name : saved)
    if (std::find(kHeads.begin(), kHeads.end(), name.substr(name.rfind('.') + 1)) != kHeads.end()) return true;
  return find(model, [&](const Parameter& parameter) {
           return is_weight_of(parameter.name, kTables) && config.saves(parameter.name);
         }) != nullptr;
}

std::unique_ptr<Model> load_base(const std::string& directory, const LoraConfig& config, const LoadOptions& options,
                                 LoadReport* report) {
  std::unique_ptr<Model> tied = Model::from_pretrained(directory, options, report);
  if (!saves_shared_weight(*tied, config)) return tied;
  LoadReport of_untied;
  std::unique_ptr<Model> model = load_changed(directory, {{"tie_word_embeddings", false}}, options, &of_untied);
  const std::shared_ptr<Parameter> head =
      find(*model, [](const Parameter& parameter) { return is_language_head(parameter.name); });
  const std::shared_ptr<Parameter> table = head && head->value.defined()
                                               ? find(*model,
                                                      [&](const Parameter& parameter) {
                                                        return is_weight_of(parameter.name, kTables) &&
                                                               parameter.value.defined() &&
                                                               parameter.value.shape() == head->value.shape();
                                                      })
                                               : nullptr;
  if (!table)
    fail(ErrorKind::kUnsupported,
         "{}: modules_to_save: the head of {} shares its weight, which is not carried out for this model; save the "
         "base model with a head of its own",
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
