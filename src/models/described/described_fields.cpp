// SPDX-License-Identifier: Apache-2.0
#include "models/described/described_fields.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/loading/config_keys.h"

namespace transom {
namespace {

// What every family with rotary positions reads.
constexpr std::string_view kRotaryFields[] = {"rope_theta", "rope_scaling", "rope_parameters",
                                              "original_max_position_embeddings", "rope_local_base_freq"};

bool is_one_of(const Json& value, const Json& allowed) {
  const auto same = [&](const Json& one) {
    return value.is_number() && one.is_number() ? value.get<double>() == one.get<double>() : value == one;
  };
  return allowed.is_array() ? std::any_of(allowed.begin(), allowed.end(), same) : same(allowed);
}

const Json& object_of(const Json& file, const char* name) {
  static const Json kNone = Json::object();
  const auto found = file.find(name);
  return found == file.end() ? kNone : *found;
}

bool begins_field(const Json& names, const std::string& key) {
  for (const auto& [name, value] : names.items())
    if (name.substr(0, name.find('.')) == key) return true;
  return false;
}

bool in_list(const Json& list, const std::string& key) {
  return list.is_array() && std::find(list.begin(), list.end(), Json(key)) != list.end();
}

// A part of the configuration, an object: its fields are those of the default, or "part.field" of the others.
void check_part(const Json& file, const std::string& part, const Json& own, const Json& known,
                const std::string& where) {
  for (const auto& [key, value] : own.items()) {
    const std::string name = part + "." + key;
    if (value.is_null() || key.starts_with("_") || known.contains(key) || object_of(file, "fixed").contains(name) ||
        in_list(object_of(file, "ignored"), name) || is_known_everywhere(key, value))
      continue;
    fail(ErrorKind::kUnsupported, "{}: {} = {} is not known of this family; leave it out", where, quoted(name, 100),
         quoted(dump_json(value), 100));
  }
}

// The fields that some layers have values of their own of, {"3": {"head_dim": 8}}: those of the file's layer_fields.
void check_fields_of_layers(const Json& file, const Config& config) {
  const Json* layers = json_at(json_of(config), "per_layer_config");
  if (!layers || layers->is_null() || !file.contains("layer_fields")) return;
  if (!layers->is_object()) fail("{}: per_layer_config: expected an object", config.where());
  for (const auto& [layer, fields] : layers->items()) {
    if (!fields.is_object()) fail("{}: per_layer_config: {}: expected an object", config.where(), quoted(layer, 100));
    for (const auto& [name, value] : fields.items())
      if (!in_list(file["layer_fields"], name))
        fail(ErrorKind::kUnsupported, "{}: per_layer_config: {}: {} = {} is not carried out for one layer; only {} is",
             config.where(), quoted(layer, 100), quoted(name, 100), quoted(dump_json(value), 100),
             quoted(dump_json(file["layer_fields"]), 100));
  }
}

}  // namespace

void check_described_fields(const Json& file, const OptionValues& values) {
  const Config& config = values.config();
  const Json &defaults = object_of(file, "defaults"), &fixed = object_of(file, "fixed"),
             &aliases = object_of(file, "aliases"), &ignored = object_of(file, "ignored");
  for (const auto& [name, allowed] : fixed.items()) {
    const Json found = values.field(name);
    if (!found.is_null() && !is_one_of(found, allowed))
      fail(ErrorKind::kUnsupported, "{}: {} = {} is not carried out; only {} is", config.where(), name,
           quoted(dump_json(found), 100), quoted(dump_json(allowed), 100));
  }
  check_fields_of_layers(file, config);
  const Json* rotary = json_at(file, "decoder.rotary");
  for (const auto& [key, value] : json_of(config).items()) {
    const bool turns = rotary && rotary->is_object() &&
                       std::find(std::begin(kRotaryFields), std::end(kRotaryFields), key) != std::end(kRotaryFields);
    if (const auto known = defaults.find(key); known != defaults.end()) {
      config.has(key);
      // Those of rotary positions have a list of their own (described_rotary.cpp).
      if (value.is_object() && known->is_object() && !turns) check_part(file, key, value, *known, config.where());
      continue;
    }
    if (turns || begins_field(aliases, key) || begins_field(fixed, key) || in_list(ignored, key)) {
      config.has(key);
      continue;
    }
    if (value.is_null() || key.starts_with("_") || is_known_everywhere(key, value)) continue;
    fail(ErrorKind::kUnsupported,
         "{}: {} = {} is not known of this family; leave it out, or name it in the family's file", config.where(),
         quoted(key, 100), quoted(dump_json(value), 100));
  }
}

}  // namespace transom
