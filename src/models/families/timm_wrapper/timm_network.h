// SPDX-License-Identifier: Apache-2.0
// Networks of timm by the names of their architectures. Each folder of one registers it; the record of the wrapper
// (timm_wrapper.cpp) gives it a head.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "models/families/timm_wrapper/timm_arguments.h"
#include "models/shared/image_classifier.h"

namespace transom {

class TimmNetwork {
 public:
  struct Facts {
    int64_t in_chans, num_classes;
    int64_t width;           // of the vector that the last layer reads
    std::string classifier;  // how that layer is called: "fc", "head.fc"
  };
  virtual ~TimmNetwork() = default;
  virtual Facts facts() const = 0;
  virtual FeatureMaps operator()(const Tensor& image, ForwardContext& context) const = 0;
};

struct TimmArchitectures {
  std::string_view examples;  // "resnet50d, resnext50_32x4d": for the error that refuses another name
  std::function<bool(const std::string& name)> knows;
  std::function<std::unique_ptr<TimmNetwork>(const Config& config, const Scope& scope)> make;
};

struct RegisterTimm {
  explicit RegisterTimm(TimmArchitectures architectures);
};

// By `architecture`; refuses names that nobody knows.
std::unique_ptr<TimmNetwork> make_timm_network(const Config& config, const Scope& scope);

}  // namespace transom
