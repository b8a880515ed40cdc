// SPDX-License-Identifier: Apache-2.0
// What a kind of adapters is given to make the adapters of a model with.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/numbers/mt19937.h"
#include "models/loading/adapters/adapter_config.h"
#include "models/loading/adapters/adapter_training.h"
#include "models/nn/weight_adapter.h"
#include "transom/ops.h"

namespace transom {

// A weight that an adapter is made for. Of a linear layer `in` and `out` say how many inputs and outputs it has,
// whichever way round it is held; of a table `in` is the number of rows, `out` their width; of a norm both are its
// width.
struct AdaptedWeight {
  std::shared_ptr<Parameter> weight;
  std::string module;  // its name without ".weight"
  bool is_table = false;
  int64_t in = 0, out = 0;
};

class AdapterMaking {
 public:
  AdapterMaking(AdapterConfig& config, const Model& model, uint64_t seed)
      : config(config), model(model), generator(seed) {}
  virtual ~AdapterMaking() = default;

  enum class Kept {
    kSaved,     // in adapter_model.safetensors
    kConstant,  // there, too, and not trained
    kOfMemory,  // not trained, and in no file
    kTraining,  // trained, and in adapter_training.safetensors, which PEFT does not read
    kState,     // there, not trained, and replaced by each update
  };
  // A tensor of the adapters, by its name without the kind's prefix. `initial` gives the values of a new one, in
  // row-major order.
  virtual std::shared_ptr<Parameter> tensor(const std::string& name, const Shape& shape,
                                            const std::function<std::vector<float>()>& initial,
                                            Kept kept = Kept::kSaved) = 0;
  // From now on the weight has this adapter.
  virtual void give(const AdaptedWeight& target, std::shared_ptr<const WeightAdapter> adapter) = 0;
  // What the adapters add to training besides.
  virtual void set_training(std::shared_ptr<AdapterTraining> training) = 0;
  // A parameter of the model is trained, and saved by this name.
  virtual void train(const std::shared_ptr<Parameter>& parameter, const std::string& name) = 0;
  // A frozen weight becomes another. Refused where other adapters share it.
  virtual void change(const AdaptedWeight& target, const Tensor& value, std::string_view field) = 0;
  // A weight as the base model's checkpoint has it, where the model holds codes.
  virtual std::shared_ptr<Parameter> plain_weight(const std::string& name) = 0;
  // Whether they are read from a directory that holds what PEFT's file alone does not: adapter_training.safetensors.
  virtual bool reads_training() const { return false; }
  // Whether they are read from a file of PEFT.
  virtual bool reads_file() const { return false; }

  AdapterConfig& config;
  const Model& model;
  std::vector<AdaptedWeight> targets;  // in the order of the model's parameters
  Mt19937 generator;
};

// As torch.nn.Linear draws its weights (kaiming_uniform_ with a = sqrt 5) and biases for this many inputs.
std::vector<float> draw_linear(Mt19937& generator, int64_t count, int64_t inputs);
std::vector<float> draw_normal(Mt19937& generator, int64_t count, double deviation = 1);
std::vector<float> all_of(int64_t count, float value);

// The table of the tokens that a model reads; null: it reads none.
std::shared_ptr<Parameter> token_table(const Model& model);
// By its name in the model; null: there is none.
std::shared_ptr<Parameter> find_parameter(const Model& model, const std::string& name);

}  // namespace transom
