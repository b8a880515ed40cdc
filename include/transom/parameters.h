// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "transom/scope.h"

namespace transom {

// The parameters of modules of your own. Make the modules on it, then train all() (optim.h), save() and load() them:
//
//   ParameterSet parameters;
//   const Classifier classifier(parameters);  // a ParameterSet& converts to the Scope of the root
//
// New values are drawn in the order in which the modules ask for them: one seed gives one set of values. For one thread
// at a time; modules may be called by several while nothing here changes the values.
class ParameterSet : public ParameterSource {
 public:
  explicit ParameterSet(uint64_t seed = 42);
  ~ParameterSet() override;
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;

  // What is trained, and the buffers (running statistics of batch norms), in the order of the modules. f32, but for
  // buffers of another type. set_requires_grad(false) of a value keeps it from being trained.
  const std::vector<std::shared_ptr<Parameter>>& all() const { return parameters_; }
  const std::vector<std::shared_ptr<Parameter>>& buffers() const { return buffers_; }

  // Writes parameters and buffers by their names as a safetensors file, which appears complete or not at all.
  void save(const std::filesystem::path& file) const;
  // Reads such a file. Names and shapes must be those of the modules, floating types are converted; an error names what
  // is missing, unexpected or of another shape, and nothing is changed then.
  void load(const std::filesystem::path& file);

  // Of ParameterSource, for modules: a name that was given before is an error.
  std::shared_ptr<Parameter> parameter(const std::string& name, const Shape& shape, const Initial& initial) override;
  std::shared_ptr<Parameter> buffer(const std::string& name, const Type& type, const Initial& initial) override;
  void tied(const std::string& name, const std::shared_ptr<Parameter>& parameter, Tie tie) override;
  void derived(const std::string& name) override;
  bool holds(const std::string& name) const override;

 private:
  struct Draws;
  Tensor fresh(const std::string& name, const Type& type, const Initial& initial);

  std::unique_ptr<Draws> draws_;
  std::vector<std::shared_ptr<Parameter>> parameters_, buffers_;
};

}  // namespace transom
