// SPDX-License-Identifier: Apache-2.0
#include "models/drafts/head_parameters.h"

#include "base/error.h"
#include "models/records.h"

namespace transom {
namespace {

const Family& family_of(const GenerativeModel& model) {
  const Family* family = find_family(model.config());
  if (!family) fail(ErrorKind::kUnsupported, "drafts: {} is of no known family", model.architecture());
  return *family;
}

}  // namespace

HeadParameters::HeadParameters(const Checkpoint& checkpoint, const GenerativeModel& model, const LoadOptions& options,
                               std::vector<std::pair<std::string, std::string>> renamed,
                               std::map<std::string, std::shared_ptr<Parameter>> shared)
    : own_(&checkpoint, family_of(model), options, model.dtype()),
      renamed_(std::move(renamed)),
      shared_(std::move(shared)) {}

std::string HeadParameters::name_of(const std::string& name) const {
  for (const auto& [before, after] : renamed_)
    if (name.starts_with(before)) return after + name.substr(before.size());
  return name;
}

std::shared_ptr<Parameter> HeadParameters::parameter(const std::string& name, const Shape& shape,
                                                     const Initial& initial) {
  if (const auto found = shared_.find(name); found != shared_.end()) return found->second;
  return own_.parameter(name_of(name), shape, initial);
}

std::vector<std::string> HeadParameters::finish(const Config& config, const std::string& where) {
  own_.finish(config);
  if (!own_.report.missing.empty())
    fail("{}: expected all weights of a head for drafts, found no {}", where, quoted(own_.report.missing[0]));
  for (const std::shared_ptr<Parameter>& parameter : own_.parameters) {
    own_.turn_coded(*parameter);
    own_.convert_stored(*parameter, config.get_int("vocab_size", 0));
  }
  return own_.report.unexpected;
}

std::shared_ptr<Parameter> parameter_named(const Model& model, const std::string& name) {
  for (const auto* some : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *some)
      if (parameter->name == name) return parameter;
  return nullptr;
}

}  // namespace transom
