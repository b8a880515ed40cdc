// SPDX-License-Identifier: Apache-2.0
#include "models/described/described_rotary.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/described/family_schema.h"
#include "models/shared/rotary/rotary_config.h"

namespace transom {
namespace {

constexpr const char* kFields[] = {"rope_scaling", "rope_parameters"};
// Those that rotary_options reads, and others that no kind has a use for.
constexpr std::string_view kParameters[] = {"rope_type",
                                            "type",
                                            "rope_theta",
                                            "partial_rotary_factor",
                                            "factor",
                                            "original_max_position_embeddings",
                                            "attention_factor",
                                            "beta_fast",
                                            "beta_slow",
                                            "mscale",
                                            "mscale_all_dim",
                                            "truncate",
                                            "low_freq_factor",
                                            "high_freq_factor",
                                            "short_factor",
                                            "long_factor",
                                            "max_position_embeddings",
                                            "finetuned"};

void check_parameters(const Json& file, const Json& parameters, const std::string& where) {
  const Json* more = json_at(file, "rotary_parameters");
  for (const auto& [name, value] : parameters.items()) {
    if (value.is_object()) {  // a set for a kind of layers
      check_parameters(file, value, where + ": " + name);
      continue;
    }
    const bool known = std::find(std::begin(kParameters), std::end(kParameters), name) != std::end(kParameters) ||
                       (more && more->is_array() && std::find(more->begin(), more->end(), Json(name)) != more->end());
    if (!known && !value.is_null())
      fail(ErrorKind::kUnsupported, "{}: {} = {} is not carried out for this family; leave it out", where,
           quoted(name, 100), quoted(dump_json(value), 100));
  }
}

// The configuration with the defaults of its rotary fields.
Config with_rotary_defaults(const OptionValues& values) {
  Config config = values.config();
  const bool silent =
      std::none_of(std::begin(kFields), std::end(kFields), [&](const char* field) { return config.has(field); });
  for (const char* field : {"rope_parameters", "partial_rotary_factor", "rope_theta"}) {
    if (config.has(field) || (!silent && field == std::string_view("rope_parameters"))) continue;
    const Json found = values.field(field);
    if (!found.is_null()) set_field(config, field, found);
  }
  return config;
}

// A base that is larger once and for all, whatever the length of the text.
void fix_alpha(const Config& config, RotaryOptions& options) {
  for (const char* field : kFields) {
    const Json* alpha = json_at(json_of(config), std::string(field) + ".alpha");
    if (!alpha || alpha->is_null() || options.kind != RotaryOptions::Kind::kDynamic) continue;
    if (!alpha->is_number() || !(alpha->get<double>() > 0))
      fail("{}: {}: alpha: expected a number above 0, found {}", config.where(), field, quoted(dump_json(*alpha), 100));
    const auto width = static_cast<double>(options.width);
    if (width <= 2) fail("{}: {}: alpha is not carried out for heads of {}", config.where(), field, options.width);
    options.theta *= std::pow(alpha->get<double>(), width / (width - 2));
    options.kind = RotaryOptions::Kind::kDefault, options.factor = 1;
    return;
  }
}

}  // namespace

double scale_of_stretched_scores(const OptionValues& values) {
  const Config config = with_rotary_defaults(values);
  for (const char* field : kFields) {
    if (!config.has(field) || !json_of(config)[field].is_object()) continue;
    const Json& parameters = json_of(config)[field];
    const auto number = [&](const char* name) {
      const Json* found = json_at(parameters, name);
      if (!found || found->is_null()) return 0.0;
      if (!found->is_number()) fail("{}: {}: {}: expected a number", config.where(), field, name);
      return found->get<double>();
    };
    const Json *kind = json_at(parameters, "rope_type"), *older = json_at(parameters, "type");
    if (!kind || kind->is_null()) kind = older;
    const double share = number("mscale_all_dim"), factor = number("factor");
    if (!kind || *kind == "default" || share == 0 || factor <= 1) return 1;
    const double each = 0.1 * share * std::log(factor) + 1;
    return each * each;
  }
  return 1;
}

std::optional<RotaryPlan> described_rotary(const Json& file, const OptionValues& values, int64_t layer,
                                           int64_t head_size) {
  const OptionSection rotary(file, values, "decoder.rotary", layer);
  if (!rotary.holds()) return std::nullopt;
  RotaryPlan plan{.options = {}, .interleaved = rotary.flag("interleaved")};
  const double theta = rotary.real("theta");
  if (!rotary.flag("configured")) {
    if (theta <= 0) fail("decoder.rotary.theta: expected a number above 0, found {}", theta);
    plan.options = {.width = head_size, .theta = theta};
  } else {
    const Config config = with_rotary_defaults(values);
    for (const char* field : kFields)
      if (config.has(field) && json_of(config)[field].is_object())
        check_parameters(file, json_of(config)[field], config.where() + ": " + field);
    const Json longest = values.field("max_position_embeddings");
    RotaryDefaults defaults{.head_width = head_size,
                            .theta = theta,
                            .turning_part = rotary.is_null("part") ? 1 : rotary.real("part"),
                            .partial = !rotary.is_null("part"),
                            .max_positions = longest.is_number_integer() ? longest.get<int64_t>() : 0,
                            .layer_type = rotary.text("layer_kind")};
    plan.options = rotary_options(config, defaults);
    if (rotary.flag("fixed_alpha")) fix_alpha(config, plan.options);
  }
  if (!rotary.is_null("width")) plan.options.width = rotary.whole("width");
  if (plan.options.width < 1 || plan.options.width > head_size)
    fail("decoder.rotary: {} numbers cannot turn in heads of {}", plan.options.width, head_size);
  return plan;
}

}  // namespace transom
