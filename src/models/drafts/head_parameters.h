// SPDX-License-Identifier: Apache-2.0
// The parameters of a draft head: some are the model's own, the others of a checkpoint under names of their own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/generative.h"
#include "models/loading/weights/checkpoint_parameters.h"

namespace transom {

class HeadParameters : public ParameterSource {
 public:
  // `renamed`: beginnings of names and what they are in the checkpoint. `shared`: of the model, by the head's names.
  HeadParameters(const Checkpoint& checkpoint, const GenerativeModel& model, const LoadOptions& options,
                 std::vector<std::pair<std::string, std::string>> renamed,
                 std::map<std::string, std::shared_ptr<Parameter>> shared);

  std::shared_ptr<Parameter> parameter(const std::string& name, const Shape& shape, const Initial& initial) override;
  std::shared_ptr<Parameter> buffer(const std::string& name, const Type& type, const Initial& initial) override {
    return own_.buffer(name_of(name), type, initial);
  }
  void tied(const std::string&, const std::shared_ptr<Parameter>&, Tie) override {}
  void derived(const std::string& name) override { own_.derived(name_of(name)); }
  bool holds(const std::string& name) const override { return own_.holds(name_of(name)); }

  // Settles them; throws for weights that the checkpoint lacks. Gives back the tensors that nobody asked for.
  std::vector<std::string> finish(const Config& config, const std::string& where);

 private:
  std::string name_of(const std::string& name) const;
  CheckpointParameters own_;
  std::vector<std::pair<std::string, std::string>> renamed_;
  std::map<std::string, std::shared_ptr<Parameter>> shared_;
};

// A parameter of the model by its name; null: it has none.
std::shared_ptr<Parameter> parameter_named(const Model& model, const std::string& name);

}  // namespace transom
