// SPDX-License-Identifier: Apache-2.0
// Optimizers by their names in TrainingArguments.
#include "models/optim/optimizers.h"

#include <charconv>

#include "base/error.h"

namespace transom {
namespace {

Settings parse_settings(std::string text) {
  Settings settings;
  std::erase(text, ' ');
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, end);
    const size_t sign = item.find('=');
    if (sign == item.npos) fail(ErrorKind::kUsage, "optim_args: expected name=value, found {}", quoted(item));
    settings.emplace(item.substr(0, sign), item.substr(sign + 1));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return settings;
}

double take_number(Settings& settings, const std::string& name, double otherwise) {
  const auto found = settings.find(name);
  if (found == settings.end()) return otherwise;
  double value = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorKind::kUsage, "optim_args: {} expects a number, found {}", name, quoted(text));
  settings.erase(found);
  return value;
}

bool take_flag(Settings& settings, const std::string& name) {
  const auto found = settings.find(name);
  if (found == settings.end()) return false;
  const std::string text = found->second;
  settings.erase(found);
  if (text == "true" || text == "True" || text == "yes" || text == "1") return true;
  if (text == "false" || text == "False" || text == "no" || text == "0") return false;
  fail(ErrorKind::kUsage, "optim_args: {} expects true or false, found {}", name, quoted(text));
}

// Trainer gives these three none of the settings: theirs are arguments of their own (adam_epsilon and the like).
std::unique_ptr<Optimizer> make_adamw_family(OptimizerOptions options, Settings& settings) {
  settings.clear();
  return make_adamw(options);
}
std::unique_ptr<Optimizer> make_adafactor_family(OptimizerOptions options, Settings& settings) {
  settings.clear();
  return make_adafactor(options);
}
std::unique_ptr<Optimizer> make_lion_family(OptimizerOptions options, Settings& settings) {
  settings.clear();
  return make_lion(options);
}

std::unique_ptr<Optimizer> make_sgd_family(OptimizerOptions options, Settings& settings) {
  const SgdOptions own{.momentum = take_number(settings, "momentum", 0),
                       .dampening = take_number(settings, "dampening", 0),
                       .nesterov = take_flag(settings, "nesterov")};
  if (own.nesterov && (own.momentum <= 0 || own.dampening != 0))
    fail(ErrorKind::kUsage, "optim_args: nesterov expects a momentum above 0 and no dampening, found {} and {}",
         own.momentum, own.dampening);
  return make_sgd(options, own);
}
std::unique_ptr<Optimizer> make_adagrad_family(OptimizerOptions options, Settings& settings) {
  const double epsilon = take_number(settings, "eps", 1e-10);
  return make_adagrad(options, epsilon, take_number(settings, "lr_decay", 0));
}
std::unique_ptr<Optimizer> make_rmsprop_family(OptimizerOptions options, Settings& settings) {
  const RmsPropOptions standard;
  return make_rmsprop(options, {.alpha = take_number(settings, "alpha", standard.alpha),
                                .epsilon = take_number(settings, "eps", standard.epsilon),
                                .momentum = take_number(settings, "momentum", 0),
                                .centered = take_flag(settings, "centered")});
}

struct Family {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)(OptimizerOptions, Settings&);
};
// adamw_torch and adamw_torch_fused differ only in PyTorch's implementation.
constexpr Family kFamilies[] = {{"adamw_torch", make_adamw_family},
                                {"adamw_torch_fused", make_adamw_family},
                                {"adafactor", make_adafactor_family},
                                {"adagrad", make_adagrad_family},
                                {"rmsprop", make_rmsprop_family},
                                {"lion_32bit", make_lion_family},
                                {"sgd", make_sgd_family}};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options) {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) {
    names.emplace_back(family.name);
    if (family.name != options.name) continue;
    Settings settings = parse_settings(options.settings);
    // Trainer gives each group of parameters its own weight decay, which goes before this.
    const bool plain = family.name == "sgd" || family.name == "adagrad" || family.name == "rmsprop";
    if (plain) take_number(settings, "weight_decay", 0);
    auto optimizer = family.make(options, settings);
    if (!settings.empty())
      fail(ErrorKind::kUsage, "optim_args: {} does not take '{}'", options.name, settings.begin()->first);
    return optimizer;
  }
  fail(ErrorKind::kUsage, "optim: unknown optimizer {}{} Known are: {}", quoted(options.name),
       did_you_mean(options.name, names), fmt::join(names, ", "));
}

}  // namespace transom
