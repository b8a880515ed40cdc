// SPDX-License-Identifier: Apache-2.0
#include "models/loading/family_names.h"

#include <optional>

#include "base/error.h"
#include "models/records.h"

namespace transom {
namespace {

// Notes what modules ask for and gives parameters without values: constructors read none.
class NameCollector : public ParameterSource {
 public:
  explicit NameCollector(const ParameterSource* holds) : holds_(holds) {}
  std::shared_ptr<Parameter> parameter(const std::string& name, const Shape&, const Initial&) override {
    return std::make_shared<Parameter>(Parameter{name, {}});
  }
  std::shared_ptr<Parameter> buffer(const std::string& name, const Type& type, const Initial& initial) override {
    return parameter(name, type.shape, initial);
  }
  void tied(const std::string& name, const std::shared_ptr<Parameter>& parameter, Tie) override {
    ties.emplace_back(parameter->name, name);
  }
  void derived(const std::string&) override {}
  bool holds(const std::string& name) const override { return holds_ && holds_->holds(name); }

  std::vector<std::pair<std::string, std::string>> ties;

 private:
  const ParameterSource* holds_;
};

// A class may refuse a configuration that another one takes: then it says nothing.
std::optional<NameCollector> names_of(const Architecture& architecture, const Config& config,
                                      const ParameterSource* holds) {
  NameCollector names(holds);
  try {
    architecture.make(config, Scope(names));
  } catch (const Error&) {
    return std::nullopt;
  }
  return names;
}

// The names under which checkpoints of other versions hold a parameter: older ones, and files in the names that
// Transformers 5 has in memory, where the experts' layer of all families is called mlp.
std::vector<std::string> other_names(const std::string& name) {
  std::vector<std::string> result{name};
  constexpr std::string_view kExperts = ".block_sparse_moe.";
  if (const size_t at = name.find(kExperts); at != name.npos)
    result.push_back(name.substr(0, at) + ".mlp." + name.substr(at + kExperts.size()));
  const auto with_end = [&](std::string_view now, std::string_view then) {
    if (name.ends_with(now)) result.push_back(name.substr(0, name.size() - now.size()) + std::string(then));
  };
  with_end("LayerNorm.weight", "LayerNorm.gamma");
  with_end("LayerNorm.bias", "LayerNorm.beta");
  with_end("parametrizations.weight.original0", "weight_g");
  with_end("parametrizations.weight.original1", "weight_v");
  return result;
}

}  // namespace

std::vector<std::string> names_in_checkpoints(const std::string& parameter, const Family& family) {
  const std::string body = family.base_prefix + ".";
  std::vector<std::string> names{parameter, body + parameter}, result;
  if (parameter.starts_with(body)) names.push_back(parameter.substr(body.size()));
  // LlamaForQuestionAnswering and its like have another name for the body, which a checkpoint of a language model
  // does not know.
  constexpr std::string_view kOther = "transformer.";
  if (parameter.starts_with(kOther) && family.base_prefix == "model") {
    names.push_back(parameter.substr(kOther.size()));
    names.push_back(body + names.back());
  }
  for (const RenamedPart& part : family.weights.renamed_parts) {
    if (parameter.starts_with(part.name)) {
      names.push_back(part.other + parameter.substr(part.name.size()));
      names.push_back(body + names.back());
    }
    // A body by itself reads a model whose body has another name.
    if (part.name == body) names.push_back(part.other + parameter);
  }
  for (const std::string& name : names)
    for (const std::string& other : other_names(name)) result.push_back(other);
  return result;
}

std::vector<std::pair<std::string, std::string>> tied_names(const Family& family, const Config& config,
                                                            const ParameterSource& checkpoint) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Architecture& architecture : family.architectures)
    if (const std::optional<NameCollector> names = names_of(architecture, config, &checkpoint))
      all.insert(all.end(), names->ties.begin(), names->ties.end());
  return all;
}

std::vector<std::string> parameters_of_body(const Model& model, const std::vector<std::string>& parameters) {
  std::vector<std::string> result;
  const Architecture* known = find_architecture(model);
  for (const std::string& parameter : parameters)
    if (known && !is_of_head(known->head, parameter)) result.push_back(parameter);
  return result;
}

}  // namespace transom
