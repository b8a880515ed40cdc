// SPDX-License-Identifier: Apache-2.0
// A policy whose completions are written by weights that are rounded to codes, while those that learn stay as they are.
#pragma once

#include <map>
#include <memory>

#include "transom/model.h"

namespace transom {

class RolloutWeights {
 public:
  // kNf4, kFp4 or kInt8Channel.
  explicit RolloutWeights(OneOf<Quantization> quantization) : quantization_(quantization) {}

  // The codes of the weights as they are now. Those of weights that do not learn are made once.
  void renew(const Model& model);

  // While it lives, linear layers compute with the codes. Adapters stay beside them.
  class InPlace {
   public:
    // Null: nothing changes.
    explicit InPlace(const RolloutWeights* codes);
    ~InPlace();
    InPlace(const InPlace&) = delete;
    InPlace& operator=(const InPlace&) = delete;

   private:
    std::map<std::shared_ptr<Parameter>, Tensor> before_;
  };

 private:
  OneOf<Quantization> quantization_;
  std::map<std::shared_ptr<Parameter>, std::shared_ptr<const PackedMatrix>> codes_;
};

}  // namespace transom
