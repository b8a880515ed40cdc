// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/schedules.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "work/train/loop/plateau.h"

namespace transom {
namespace {

// The settings of lr_scheduler_kwargs; each schedule takes the ones it knows, and what is left is an error.
class Settings {
 public:
  Settings(const ScheduleOptions& options) : type_(options.type), json_(Json::object()) {
    if (!options.settings.text.empty()) json_ = parse_json(options.settings.text, "lr_scheduler_kwargs");
  }
  std::optional<double> number(const std::string& name) {
    const Json value = take(name);
    if (value.is_null()) return std::nullopt;
    if (!value.is_number())
      fail(ErrorKind::kUsage, "lr_scheduler_kwargs: {}: expected a number, found {}", name, value.dump());
    return value.get<double>();
  }
  double number(const std::string& name, double standard) { return number(name).value_or(standard); }
  std::string one_of(const std::string& name, const std::string& standard, const std::vector<std::string>& choices) {
    const Json value = take(name);
    if (value.is_null()) return standard;
    if (!value.is_string() || std::find(choices.begin(), choices.end(), value.get<std::string>()) == choices.end())
      fail(ErrorKind::kUsage, "lr_scheduler_kwargs: {}: expected one of {}, found {}", name, fmt::join(choices, ", "),
           value.dump());
    return value.get<std::string>();
  }
  void finish() const {
    if (json_.empty()) return;
    const std::string name = json_.begin().key();
    fail(ErrorKind::kUsage, "lr_scheduler_kwargs: {} has no setting {}{}", type_, transom::quoted(name),
         did_you_mean(name, known_));
  }

 private:
  Json take(const std::string& name) {
    known_.push_back(name);
    const auto found = json_.find(name);
    if (found == json_.end()) return {};
    Json value = *found;
    json_.erase(found);
    return value;
  }
  std::string type_;
  Json json_;
  std::vector<std::string> known_;
};

using Factor = std::function<double(int64_t step)>;

// The initial learning rate times a function of the step, as torch's LambdaLR.
class FactorSchedule : public Schedule {
 public:
  FactorSchedule(double initial, Factor factor) : initial_(initial), factor_(std::move(factor)) {}
  double learning_rate() const override { return initial_ * factor_(step_); }
  void step() override { ++step_; }
  Json state() const override { return {{"last_epoch", step_}}; }
  void load(const Json& state) override {
    require(state.is_object() && state.contains("last_epoch") && state["last_epoch"].is_number_integer(),
            "learning rate schedule: expected a state with last_epoch");
    step_ = state["last_epoch"].get<int64_t>();
  }

 private:
  double initial_;
  Factor factor_;
  int64_t step_ = 0;
};

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(std::max<int64_t>(1, b)); }

// Linear from 0 to 1 over the warm-up, then `after`.
Factor warmed_up(int64_t warmup, Factor after) {
  return [warmup, after = std::move(after)](int64_t step) { return step < warmup ? ratio(step, warmup) : after(step); };
}

double cosine(double cycles, double progress) { return 0.5 * (1 + std::cos(std::numbers::pi * cycles * 2 * progress)); }

Factor linear(const ScheduleOptions& o, Settings&) {
  return warmed_up(o.warmup_steps,
                   [o](int64_t step) { return std::max(0.0, ratio(o.steps - step, o.steps - o.warmup_steps)); });
}

Factor constant(const ScheduleOptions&, Settings&) {
  return [](int64_t) { return 1.0; };
}

Factor constant_with_warmup(const ScheduleOptions& o, Settings&) {
  return warmed_up(o.warmup_steps, [](int64_t) { return 1.0; });
}

Factor cosine_to(const ScheduleOptions& o, double cycles, double lowest) {
  return warmed_up(o.warmup_steps, [o, cycles, lowest](int64_t step) {
    const double factor = cosine(cycles, ratio(step - o.warmup_steps, o.steps - o.warmup_steps));
    return std::max(0.0, factor * (1 - lowest) + lowest);
  });
}

Factor cosine(const ScheduleOptions& o, Settings& settings) {
  return cosine_to(o, settings.number("num_cycles", 0.5), 0);
}

Factor cosine_with_restarts(const ScheduleOptions& o, Settings& settings) {
  const double cycles = settings.number("num_cycles", 1);
  return warmed_up(o.warmup_steps, [o, cycles](int64_t step) {
    const double progress = ratio(step - o.warmup_steps, o.steps - o.warmup_steps);
    if (progress >= 1) return 0.0;
    return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * std::fmod(cycles * progress, 1.0))));
  });
}

Factor polynomial(const ScheduleOptions& o, Settings& settings) {
  const double end = settings.number("lr_end", 1e-7), power = settings.number("power", 1), begin = o.learning_rate;
  if (!(begin > end))
    fail(ErrorKind::kUsage, "lr_scheduler_kwargs: lr_end: expected a number below learning_rate ({}), found {}", begin,
         end);
  return warmed_up(o.warmup_steps, [o, end, power, begin](int64_t step) {
    if (step > o.steps) return end / begin;
    const double remaining =
        1 - static_cast<double>(step - o.warmup_steps) / static_cast<double>(o.steps - o.warmup_steps);
    return ((begin - end) * std::pow(remaining, power) + end) / begin;
  });
}

Factor inverse_sqrt(const ScheduleOptions& o, Settings& settings) {
  const double scale = settings.number("timescale", o.warmup_steps > 0 ? static_cast<double>(o.warmup_steps) : 10000);
  return warmed_up(o.warmup_steps, [o, scale](int64_t step) {
    return 1 / std::sqrt((static_cast<double>(step) + (scale - static_cast<double>(o.warmup_steps))) / scale);
  });
}

double lowest_ratio(const ScheduleOptions& o, Settings& settings) {
  const auto rate = settings.number("min_lr"), of_initial = settings.number("min_lr_rate");
  if (rate.has_value() == of_initial.has_value())
    fail(ErrorKind::kUsage, "lr_scheduler_kwargs: {}: expected one of min_lr and min_lr_rate, found {}", o.type,
         rate ? "both" : "none");
  return rate ? *rate / o.learning_rate : *of_initial;
}

Factor cosine_with_min_lr(const ScheduleOptions& o, Settings& settings) {
  const double lowest = lowest_ratio(o, settings);
  return cosine_to(o, settings.number("num_cycles", 0.5), lowest);
}

// Warms up from a given rate, or from one step on, and reaches its lowest at the last step.
Factor cosine_warmup_with_min_lr(const ScheduleOptions& o, Settings& settings) {
  const double lowest = lowest_ratio(o, settings), cycles = settings.number("num_cycles", 0.5);
  const std::optional<double> first = settings.number("warmup_lr_rate");
  const auto warmup = static_cast<double>(o.warmup_steps), all = static_cast<double>(o.steps);
  return [=](int64_t number) {
    const auto step = static_cast<double>(number);
    if (step < warmup)
      return first ? *first + (1 - *first) * step / std::max(1.0, warmup - 1) : (step + 1) / std::max(1.0, warmup);
    const double factor = cosine(cycles, (step - warmup + 1) / std::max(1.0, all - warmup));
    return std::max(0.0, factor * (1 - lowest) + lowest);
  };
}

Factor warmup_stable_decay(const ScheduleOptions& o, Settings& settings) {
  const std::vector<std::string> shapes = {"linear", "cosine", "1-sqrt"};
  const auto decay = settings.number("num_decay_steps");
  if (!decay) fail(ErrorKind::kUsage, "lr_scheduler_kwargs: warmup_stable_decay: expected num_decay_steps, found none");
  const auto stable_steps = settings.number("num_stable_steps");
  const auto warmup_type = settings.one_of("warmup_type", "linear", shapes);
  const auto decay_type = settings.one_of("decay_type", "cosine", shapes);
  const double lowest = settings.number("min_lr_ratio", 0), cycles = settings.number("num_cycles", 0.5);
  const auto decay_steps = static_cast<int64_t>(*decay);
  const int64_t warmup = o.warmup_steps;
  const int64_t stable = stable_steps ? static_cast<int64_t>(*stable_steps) : o.steps - warmup - decay_steps;
  return [=](int64_t step) {
    const auto raised = [&](double factor) { return std::max(0.0, factor * (1 - lowest) + lowest); };
    if (step < warmup) {
      const double progress = ratio(step, warmup);
      if (warmup_type == "linear") return raised(progress);
      if (warmup_type == "cosine") return raised(0.5 * (1 - std::cos(std::numbers::pi * progress)));
      return raised(1 - std::sqrt(1 - progress));
    }
    if (step < warmup + stable) return 1.0;
    if (step >= warmup + stable + decay_steps) return lowest;
    const double progress = ratio(step - warmup - stable, decay_steps);
    if (decay_type == "linear") return raised(1 - progress);
    if (decay_type == "cosine") return raised(cosine(cycles, progress));
    return raised(1 - std::sqrt(progress));
  };
}

struct Named {
  std::string_view name;
  Factor (*make)(const ScheduleOptions&, Settings&);
};
constexpr Named kSchedules[] = {
    {"linear", linear},
    {"cosine", cosine},
    {"cosine_with_restarts", cosine_with_restarts},
    {"polynomial", polynomial},
    {"constant", constant},
    {"constant_with_warmup", constant_with_warmup},
    {"inverse_sqrt", inverse_sqrt},
    {"cosine_with_min_lr", cosine_with_min_lr},
    {"cosine_warmup_with_min_lr", cosine_warmup_with_min_lr},
    {"warmup_stable_decay", warmup_stable_decay},
};

PlateauOptions plateau_options(const ScheduleOptions& o, Settings& settings) {
  PlateauOptions plateau;
  plateau.learning_rate = o.learning_rate;
  plateau.mode_max = settings.one_of("mode", "min", {"min", "max"}) == "max";
  plateau.factor = settings.number("factor", plateau.factor);
  plateau.patience = static_cast<int64_t>(settings.number("patience", 10));
  plateau.threshold = settings.number("threshold", plateau.threshold);
  plateau.relative = settings.one_of("threshold_mode", "rel", {"rel", "abs"}) == "rel";
  plateau.cooldown = static_cast<int64_t>(settings.number("cooldown", 0));
  plateau.minimum = settings.number("min_lr", 0);
  plateau.epsilon = settings.number("eps", plateau.epsilon);
  if (plateau.factor >= 1)
    fail(ErrorKind::kUsage, "lr_scheduler_kwargs: factor: expected a number below 1, found {}", plateau.factor);
  return plateau;
}

Factor factor_of(const ScheduleOptions& options, Settings& settings) {
  std::vector<std::string> names = {"reduce_lr_on_plateau"};
  for (const Named& each : kSchedules) {
    names.emplace_back(each.name);
    if (each.name != options.type) continue;
    Factor factor = each.make(options, settings);
    // Transformers does not look at the settings of these two.
    if (options.type != "constant" && options.type != "constant_with_warmup") settings.finish();
    return factor;
  }
  fail(ErrorKind::kUsage, "lr_scheduler_type: expected one of {}, found {}", fmt::join(names, ", "),
       transom::quoted(options.type));
}

constexpr std::string_view kPlateau = "reduce_lr_on_plateau";

}  // namespace

std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options) {
  Settings settings(options);
  if (options.type == kPlateau) {
    const PlateauOptions plateau = plateau_options(options, settings);
    settings.finish();
    return std::make_unique<PlateauSchedule>(plateau);
  }
  return std::make_unique<FactorSchedule>(options.learning_rate, factor_of(options, settings));
}

std::function<double(int64_t step)> learning_rate_schedule(const ScheduleOptions& options) {
  if (options.type == kPlateau)
    fail(ErrorKind::kUsage, "lr_scheduler_type: {} follows metrics and is no function of the step; use a Trainer",
         kPlateau);
  Settings settings(options);
  return [initial = options.learning_rate, factor = factor_of(options, settings)](int64_t step) {
    return initial * factor(step);
  };
}

}  // namespace transom
