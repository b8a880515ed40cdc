// SPDX-License-Identifier: Apache-2.0
// The options of a loss, --loss_kwargs, of which nothing is passed over.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace transom {

// Errors are of kind kUsage and name the option. null is as if the option were not given.
class LossOptions {
 public:
  // `loss` is named in errors.
  LossOptions(Json object, std::string loss);

  double number(const std::string& name, double otherwise);
  double number_above_zero(const std::string& name, double otherwise);
  double number_from_zero(const std::string& name, double otherwise);
  bool flag(const std::string& name, bool otherwise);
  std::optional<int64_t> count(const std::string& name);  // above 0
  // One of `choices`; letters count without case, and what stands before a dot (TripletDistanceMetric.COSINE) does not.
  std::string choice(const std::string& name, const std::vector<std::string>& choices, const std::string& otherwise);
  std::vector<std::string> choices(const std::string& name, const std::vector<std::string>& all,
                                   const std::vector<std::string>& otherwise);
  // Takes an option that can have one value alone here.
  void only(const std::string& name, const Json& value);
  bool holds_null(const std::string& name) const { return object_.contains(name) && object_[name].is_null(); }
  Json value(const std::string& name);  // null where it is not given
  // Refuses the options that nobody asked for, by name.
  void finish() const;
  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const;

 private:
  std::string chosen(const std::string& name, const Json& given, const std::vector<std::string>& all) const;
  Json object_;
  std::string loss_;
  std::set<std::string> known_;
};

}  // namespace transom
