// SPDX-License-Identifier: Apache-2.0
// Where the results of a product of the own text go.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "gpu/lowering/products.h"
#include "gpu/source/region_text.h"

namespace transom::gpu {

// Writes a result, or what the fusion after the product makes of it.
class ResultText {
 public:
  ResultText(KernelText& text, const FragmentProduct& product) : text_(text), product_(product) {
    Following* const after = product.following;
    if (!after) return;
    region_.emplace(*after->region);
    const int64_t count = product.shape.batch * product.shape.rows * product.shape.columns;
    const auto one_each = [&](size_t value) {
      const Region::Member* maker = region_->maker(value);
      return region_->types[value].count() == count && !(maker && maker->node.op() == "reduce_sum");
    };
    after->taken = std::all_of(region_->outputs.begin(), region_->outputs.end(), one_each) &&
                   region_->types[region_->inputs.at(after->replaced)].dtype == product.shape.to;
    if (!after->taken) region_.reset();
  }
  const char* label() const { return region_ ? " and what follows" : ""; }

  // "at" is the place of the result "value".
  void write() {
    const transom_dtype to = product_.shape.to;
    if (!region_) {
      text_.line("{}", store(text_, to, text_.address(product_.out, storage_type(to)), "at", "value"));
      return;
    }
    const Following& after = *product_.following;
    text_.line("const float result = {};", rounded(text_, to, "value"));
    RegionText values(text_, *region_, after.inputs);
    values.name(region_->inputs[after.replaced], "at", "result");
    std::vector<std::string> results;  // all reads before all writes: an output may lie on an input
    for (const size_t output : region_->outputs) results.push_back(values.at(output, "at"));
    for (size_t i = 0; i < results.size(); ++i) {
      const transom_dtype dtype = region_->types[region_->outputs[i]].dtype;
      text_.line("{}", store(text_, dtype, text_.address(after.outputs[i], storage_type(dtype)), "at", results[i]));
    }
  }

 private:
  KernelText& text_;
  const FragmentProduct& product_;
  std::optional<Region> region_;
};

}  // namespace transom::gpu
