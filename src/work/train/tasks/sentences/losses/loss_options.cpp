// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/sentences/losses/loss_options.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"

namespace transom {
namespace {

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

LossOptions::LossOptions(Json object, std::string loss) : object_(std::move(object)), loss_(std::move(loss)) {
  if (object_.is_null()) object_ = Json::object();
  if (!object_.is_object())
    fail(ErrorKind::kUsage, "--loss_kwargs: expected an object with the options of {}, found {}", loss_,
         quoted(dump_json(object_)));
}

void LossOptions::refuse(const std::string& name, const std::string& expected) const {
  fail(ErrorKind::kUsage, "--loss_kwargs: {} of {}: expected {}, found {}", name, loss_, expected,
       quoted(dump_json(object_.value(name, Json()))));
}

Json LossOptions::value(const std::string& name) {
  known_.insert(name);
  return object_.value(name, Json());
}

double LossOptions::number(const std::string& name, double otherwise) {
  const Json given = value(name);
  if (given.is_null()) return otherwise;
  if (!given.is_number() || !std::isfinite(given.get<double>())) refuse(name, "a number");
  return given.get<double>();
}

double LossOptions::number_above_zero(const std::string& name, double otherwise) {
  const double given = number(name, otherwise);
  if (given <= 0) refuse(name, "a number above 0");
  return given;
}

double LossOptions::number_from_zero(const std::string& name, double otherwise) {
  const double given = number(name, otherwise);
  if (given < 0) refuse(name, "a number from 0");
  return given;
}

bool LossOptions::flag(const std::string& name, bool otherwise) {
  const Json given = value(name);
  if (given.is_null()) return otherwise;
  if (!given.is_boolean()) refuse(name, "true or false");
  return given.get<bool>();
}

std::optional<int64_t> LossOptions::count(const std::string& name) {
  const Json given = value(name);
  if (given.is_null()) return std::nullopt;
  const bool whole = given.is_number_integer() && (!given.is_number_unsigned() || given.get<uint64_t>() <= INT32_MAX);
  if (!whole || given.get<int64_t>() < 1 || given.get<int64_t>() > INT32_MAX) refuse(name, "a whole number above 0");
  return given.get<int64_t>();
}

std::string LossOptions::chosen(const std::string& name, const Json& given, const std::vector<std::string>& all) const {
  if (given.is_string()) {
    const std::string text = given.get<std::string>(), last = lower_case(text.substr(text.rfind('.') + 1));
    for (const std::string& each : all)
      if (lower_case(each) == last) return each;
  }
  refuse(name, fmt::format("{}", fmt::join(all, " or ")));
}

std::string LossOptions::choice(const std::string& name, const std::vector<std::string>& choices,
                                const std::string& otherwise) {
  const Json given = value(name);
  return given.is_null() ? otherwise : chosen(name, given, choices);
}

std::vector<std::string> LossOptions::choices(const std::string& name, const std::vector<std::string>& all,
                                              const std::vector<std::string>& otherwise) {
  const Json given = value(name);
  if (given.is_null()) return otherwise;
  if (!given.is_array() || given.empty()) refuse(name, fmt::format("a list of {}", fmt::join(all, ", ")));
  std::vector<std::string> result;
  for (const Json& each : given) result.push_back(chosen(name, each, all));
  return result;
}

void LossOptions::only(const std::string& name, const Json& value_here) {
  const Json given = value(name);
  if (given.is_null() || given == value_here) return;
  fail(ErrorKind::kUnsupported, "--loss_kwargs: {} of {}: {} is not supported; {} is", name, loss_,
       quoted(dump_json(given)), dump_json(value_here));
}

void LossOptions::finish() const {
  const std::vector<std::string> names(known_.begin(), known_.end());
  for (const auto& [name, value] : object_.items())
    if (!known_.contains(name))
      fail(ErrorKind::kUsage, "--loss_kwargs: {} is no option of {}{}; {}", quoted(name), loss_,
           did_you_mean(name, names),
           names.empty() ? "it has none" : fmt::format("known are: {}", fmt::join(names, ", ")));
}

}  // namespace transom
