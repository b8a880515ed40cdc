// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/machines/device_model.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "tools/plan/plan_data.h"

namespace transom {
namespace {

using Member = double FittedRates::*;
const std::vector<std::pair<std::string, Member>>& members() {
  static const std::vector<std::pair<std::string, Member>> all = {
      {"matrix", &FittedRates::matrix},
      {"matrix_inference", &FittedRates::matrix_inference},
      {"matrix_narrow", &FittedRates::matrix_narrow},
      {"half_width", &FittedRates::half_width},
      {"memory", &FittedRates::memory},
      {"passes", &FittedRates::passes},
      {"layer_training", &FittedRates::layer_training},
      {"layer_inference", &FittedRates::layer_inference},
      {"step", &FittedRates::step},
      {"sample", &FittedRates::sample},
      {"overlap", &FittedRates::overlap},
      {"link", &FittedRates::link},
      {"collective", &FittedRates::collective},
      {"tuned", &FittedRates::tuned},
      {"convolution", &FittedRates::convolution},
      {"separable", &FittedRates::separable},
      {"image", &FittedRates::image},
      {"sharding", &FittedRates::sharding},
      {"crowding", &FittedRates::crowding},
      {"cache", &FittedRates::cache},
      {"overlap_decoding", &FittedRates::overlap_decoding},
      {"engine_products", &FittedRates::engine_products},
      {"engine_lanes", &FittedRates::engine_lanes},
  };
  return all;
}

double number_of(const Json& json, const char* field, const std::string& where, double fallback) {
  const auto found = json.find(field);
  if (found == json.end()) return fallback;
  if (!found->is_number() || !std::isfinite(found->get<double>()) || found->get<double>() < 0)
    fail("{}: {}: expected a number from 0, found {}", where, field, quoted(found->dump()));
  return found->get<double>();
}

std::string text_of(const Json& json, const char* field, const std::string& where, const std::string& fallback) {
  const auto found = json.find(field);
  if (found == json.end()) return fallback;
  if (!found->is_string()) fail("{}: {}: expected a string, found {}", where, field, found->type_name());
  return found->get<std::string>();
}

const Json& object_of(const Json& json, const char* field, const std::string& where) {
  static const Json none = Json::object();
  const auto found = json.find(field);
  if (found == json.end()) return none;
  if (!found->is_object()) fail("{}: {}: expected an object, found {}", where, field, found->type_name());
  return *found;
}

Interconnect links_of(const Json& json, const std::string& where) {
  Interconnect result;
  result.topology = text_of(json, "topology", where, json.empty() ? "none" : "switch");
  if (result.topology != "switch" && result.topology != "mesh" && result.topology != "none")
    fail("{}: topology: expected switch, mesh or none, found {}", where, quoted(result.topology));
  result.bandwidth = number_of(json, "bytes_per_second", where, 0);
  result.pair_bandwidth = number_of(json, "pair_bytes_per_second", where, result.bandwidth);
  result.latency = number_of(json, "latency_seconds", where, result.latency);
  return result;
}

LayerEngine engine_of(const Json& json, const std::string& where) {
  LayerEngine result;
  if (json.empty()) return result;
  const auto positive = [&](const char* field) {
    const double value = number_of(json, field, where, 0);
    if (!(value > 0)) fail("{}: {}: expected a number above 0, found {}", where, field, value);
    return value;
  };
  result.input_channels = positive("input_channels"), result.output_channels = positive("output_channels");
  result.pixels = positive("pixels");
  result.lane_channels = positive("lane_channels"), result.lane_pixels = positive("lane_pixels");
  result.engines = positive("engines"), result.cycles_per_second = positive("cycles_per_second");
  result.map_bytes = positive("map_bytes");
  result.host_seconds_per_output = number_of(json, "host_seconds_per_output", where, 0);
  return result;
}

std::string plain(std::string_view name) {
  std::string result;
  for (const unsigned char c : name)
    if (std::isalnum(c)) result += static_cast<char>(std::tolower(c));
  return result;
}

}  // namespace

const std::vector<std::string>& fitted_rate_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const auto& [name, member] : members()) result.push_back(name);
    return result;
  }();
  return names;
}

double& fitted_rate(FittedRates& rates, const std::string& name) {
  for (const auto& [known, member] : members())
    if (known == name) return rates.*member;
  fail("fitted.{}: there is no such rate{}", name, did_you_mean(name, fitted_rate_names()));
}

double DeviceModel::peak(const std::string& engine) const {
  const auto exact = peaks.find(engine);
  if (exact != peaks.end()) return exact->second;
  const auto any = [&](std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (const auto found = peaks.find(name); found != peaks.end()) return found->second;
    return 0.0;
  };
  if (engine == "fp8" || engine == "fp4") {
    if (const double rate = engine == "fp4" ? any({"fp8"}) : 0) return rate;
    fail(ErrorKind::kUsage, "dtype: {} has no {}; it multiplies in {}", title, engine, [&] {
      std::vector<std::string> names;
      for (const auto& [name, rate] : peaks) names.push_back(name);
      return fmt::format("{}", fmt::join(names, ", "));
    }());
  }
  if (engine == "fp16.32") return any({"fp16"});
  if (engine == "int8") return any({"fp16", "bf16", "fp32"});
  if (engine == "tf32") return any({"tf32", "fp32", "bf16"});
  if (engine == "fp64") return any({"fp32"}) / 2;
  return any({"bf16", "fp16", "fp32"});
}

DeviceModel read_device_model(const fs::path& file) {
  const std::string where = file.string();
  const Json json = read_json(file);
  if (!json.is_object()) fail("{}: expected an object, found {}", where, json.type_name());
  DeviceModel device;
  device.file = where;
  device.name = text_of(json, "name", where, file.stem().string());
  device.title = text_of(json, "title", where, device.name);
  device.family = text_of(json, "family", where, "other");
  if (const auto aliases = json.find("aliases"); aliases != json.end())
    for (const Json& alias : *aliases)
      if (alias.is_string()) device.aliases.push_back(alias.get<std::string>());
  for (const auto& [engine, rate] : object_of(json, "peak_operations_per_second", where).items()) {
    if (!rate.is_number() || !(rate.get<double>() > 0))
      fail("{}: peak_operations_per_second.{}: expected a number above 0, found {}", where, engine, rate.dump());
    device.peaks[engine] = rate.get<double>();
  }
  if (device.peaks.empty()) fail("{}: peak_operations_per_second is missing", where);
  device.engine = engine_of(object_of(json, "layer_engine", where), where + ": layer_engine");
  const Json& memory = object_of(json, "memory", where);
  device.memory_bytes = number_of(memory, "bytes", where, 0);
  device.bandwidth = number_of(memory, "bytes_per_second", where, 0);
  device.on_chip_bytes = number_of(memory, "on_chip_bytes", where, 0);
  device.memory_reserve = number_of(memory, "reserve_bytes", where, 0);
  device.streaming_bandwidth = number_of(memory, "streaming_bytes_per_second", where, 0);
  device.streaming_bytes = number_of(memory, "streaming_bytes", where, 0);
  device.memory_on_chip = text_of(memory, "kind", where, "hbm") == "sram";
  if (!(device.memory_bytes > 0)) fail("{}: memory.bytes: expected a number above 0, found 0", where);
  if (!(device.bandwidth > 0)) fail("{}: memory.bytes_per_second: expected a number above 0, found 0", where);
  device.inside = links_of(object_of(json, "links_inside", where), where + ": links_inside");
  device.outside = links_of(object_of(json, "links_outside", where), where + ": links_outside");
  device.devices_per_host = std::max(1.0, number_of(json, "devices_per_host", where, 1));
  const Json& power = object_of(json, "power", where);
  device.watts = number_of(power, "watts", where, 0);
  device.idle_watts = number_of(power, "idle_watts", where, device.watts * 0.25);
  device.host_watts = number_of(power, "host_watts", where, 0);
  if (const auto prices = json.find("prices"); prices != json.end() && prices->is_array())
    for (const Json& price : *prices)
      device.prices.push_back({text_of(price, "instance", where, ""), text_of(price, "date", where, ""),
                               text_of(price, "source", where, ""),
                               std::max(1.0, number_of(price, "devices", where, 1)),
                               number_of(price, "usd_per_hour", where, 0)});
  device.measured = json.contains("measured");
  const auto read_rates = [&](const char* field, FittedRates& rates) {
    for (const auto& [name, value] : object_of(json, field, where).items()) {
      if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
        fail("{}: {}.{}: expected a number from 0, found {}", where, field, name, quoted(value.dump()));
      fitted_rate(rates, name) = value.get<double>();
    }
  };
  read_rates("prior", device.prior);
  device.fitted = device.prior;
  read_rates("fitted", device.fitted);
  for (const FittedRates* rates : {&device.prior, &device.fitted})
    if (device.engine.present() && !(rates->engine_products > 0 && rates->engine_lanes > 0))
      fail("{}: prior: a layer_engine needs engine_products and engine_lanes above 0", where);
  return device;
}

std::vector<DeviceModel> all_device_models() {
  std::vector<DeviceModel> result;
  for (const fs::path& directory : device_model_directories()) {
    if (!directory_exists(directory)) continue;
    for (const fs::path& file : list_directory(directory)) {
      if (file.extension() != ".json") continue;
      DeviceModel device = read_device_model(file);
      const bool known =
          std::any_of(result.begin(), result.end(), [&](const DeviceModel& d) { return d.name == device.name; });
      if (!known) result.push_back(std::move(device));
    }
  }
  return result;
}

DeviceModel find_device_model(const std::string& hardware) {
  if (hardware.ends_with(".json")) {
    if (!file_exists(hardware)) fail(ErrorKind::kUsage, "hardware: there is no file {}", quoted(hardware));
    return read_device_model(hardware);
  }
  const std::string sought = plain(hardware);
  std::vector<std::string> names;
  for (DeviceModel& device : all_device_models()) {
    std::vector<std::string> own = device.aliases;
    own.insert(own.begin(), {device.name, device.title});
    for (const std::string& name : own)
      if (plain(name) == sought) return device;
    names.push_back(device.name);
    names.insert(names.end(), device.aliases.begin(), device.aliases.end());
  }
  fail(ErrorKind::kUsage, "hardware: {} is not known{} `transom plan --list` shows the names", quoted(hardware),
       did_you_mean(hardware, names));
}

}  // namespace transom
