// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/plateau.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "base/json/json_errors.h"

namespace transom {

bool PlateauSchedule::is_better(double metric) const {
  if (!best_) return std::isfinite(metric);
  const double sign = options_.mode_max ? 1 : -1;
  const double bar = options_.relative ? *best_ * (1 + sign * options_.threshold) : *best_ + sign * options_.threshold;
  return options_.mode_max ? metric > bar : metric < bar;
}

void PlateauSchedule::observe(double metric) {
  ++observed_;
  if (is_better(metric)) {
    best_ = metric;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooling_ > 0) {
    --cooling_;
    bad_ = 0;
  }
  if (bad_ <= options_.patience) return;
  const double reduced = std::max(learning_rate_ * options_.factor, options_.minimum);
  if (learning_rate_ - reduced > options_.epsilon) learning_rate_ = reduced;
  cooling_ = options_.cooldown;
  bad_ = 0;
}

Json PlateauSchedule::state() const {
  return {{"last_epoch", observed_},
          {"best", best_ ? Json(*best_) : Json()},
          {"num_bad_epochs", bad_},
          {"cooldown_counter", cooling_},
          {"_last_lr", Json::array({learning_rate_})}};
}

void PlateauSchedule::load(const Json& state) {
  try {
    observed_ = state.at("last_epoch").get<int64_t>();
    best_.reset();
    if (!state.at("best").is_null()) best_ = state.at("best").get<double>();
    bad_ = state.at("num_bad_epochs").get<int64_t>();
    cooling_ = state.at("cooldown_counter").get<int64_t>();
    learning_rate_ = state.at("_last_lr").at(0).get<double>();
  } catch (const Json::exception& error) {
    fail("learning rate schedule: expected the state of reduce_lr_on_plateau: {}", json_reason(error));
  }
}

}  // namespace transom
