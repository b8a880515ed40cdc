// SPDX-License-Identifier: Apache-2.0
// The class with a head that ResNet and RegNet both have: a linear layer over the mean of the last map.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "models/family.h"
#include "models/shared/image_classifier.h"

namespace transom {

// `Body::kName`: the name of the body among the weights.
template <typename Body>
class PooledMapClassifier : public Model {
 public:
  PooledMapClassifier(const Config& config, const Scope& scope)
      : problem_type_(config.get_string("problem_type", "")),
        body_(config, scope / Body::kName),
        classifier_(scope / "classifier" / 1, body_.width(), number_of_labels(config),
                    {.deviation = 1 / std::sqrt(3.0 * static_cast<double>(body_.width()))}) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const FeatureMaps maps = body_(image_input(inputs, body_.num_channels()), context);
    return with_states(
        sequence_classification_outputs(classifier_(maps.pooled, context), inputs, problem_type_, context), maps,
        context);
  }

 private:
  std::string problem_type_;
  Body body_;
  Linear classifier_;
};

}  // namespace transom
