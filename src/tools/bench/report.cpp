// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/report.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

Json phase_json(const Phase& phase) {
  const Latency l = latency_of(phase.seconds);
  Json latency = {{"unit", "s"},
                  {"values", phase.seconds},
                  {"count", phase.seconds.size()},
                  {"total", l.total},
                  {"mean", l.mean},
                  {"p50", l.p50},
                  {"p90", l.p90},
                  {"p95", l.p95},
                  {"p99", l.p99},
                  {"stdev", l.stdev},
                  {"stdev_", l.stdev_percent}};
  Json throughput = nullptr;
  if (phase.samples > 0) throughput = {{"unit", "samples/s"}, {"value", phase.throughput()}};
  return {{"memory",
           {{"unit", "MB"},
            {"max_ram", phase.max_ram},
            {"max_global_vram", nullptr},
            {"max_process_vram", nullptr},
            {"max_reserved", nullptr},
            {"max_allocated", nullptr}}},
          {"latency", std::move(latency)},
          {"throughput", std::move(throughput)},
          {"energy", nullptr},
          {"efficiency", nullptr}};
}

// A number of an object, or `otherwise` where it is missing or null.
double number(const Json& object, const char* name, double otherwise, const std::string& where) {
  if (!object.contains(name) || object[name].is_null()) return otherwise;
  if (!object[name].is_number()) fail("{}: {}: expected a number", where, name);
  return object[name].get<double>();
}

Phase parse_phase(const std::string& name, const Json& json, const std::string& where) {
  Phase phase{.name = name, .seconds = {}};
  if (!json.is_object()) fail("{}: phase {}: expected an object", where, quoted(name));
  const auto part = [&](const char* key) {
    return json.contains(key) && json[key].is_object() ? json[key] : Json::object();
  };
  const Json latency = part("latency"), memory = part("memory"), throughput = part("throughput");
  if (latency.contains("values") && latency["values"].is_array())
    for (const Json& value : latency["values"]) {
      if (!value.is_number()) fail("{}: phase {}: expected numbers in latency.values", where, quoted(name));
      phase.seconds.push_back(value.get<double>());
    }
  const double mean = latency_of(phase.seconds).mean;
  phase.samples = number(throughput, "value", 0, where) * mean;
  phase.max_ram = number(memory, "max_ram", 0, where);
  return phase;
}

Comparison compared(std::string name, const char* quantity, double before, double after, double threshold) {
  Comparison result{.name = std::move(name), .quantity = quantity, .before = before, .after = after};
  result.regression = before > 0 && after > before * (1 + threshold);
  return result;
}

}  // namespace

Json to_json(const BenchReport& report, Json config) {
  config["name"] = report.name;
  if (!report.kernels.empty()) {
    Json kernels = Json::array();
    for (const KernelTime& k : report.kernels)
      kernels.push_back({{"operation", k.operation},
                         {"kernel", k.kernel},
                         {"types", k.types},
                         {"calls", k.calls},
                         {"seconds", k.seconds}});
    config["environment"]["kernels"] = std::move(kernels);
  }
  Json phases = Json::object();
  for (const Phase& phase : report.phases) phases[phase.name] = phase_json(phase);
  return {{"config", std::move(config)}, {"report", std::move(phases)}};
}

BenchReport parse_report(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  if (!json.is_object()) fail("{}: expected a report of transom bench or optimum-benchmark", where);
  BenchReport report;
  const bool whole = json.contains("report");
  const Json& phases = whole ? json["report"] : json;
  if (!phases.is_object() || phases.empty()) fail("{}: expected phases in \"report\", found none", where);
  for (const auto& [name, phase] : phases.items()) report.phases.push_back(parse_phase(name, phase, where));
  if (!whole || !json.contains("config") || !json["config"].is_object()) return report;
  const Json& config = json["config"];
  if (config.contains("name") && config["name"].is_string()) report.name = config["name"].get<std::string>();
  if (!config.contains("environment") || !config["environment"].is_object()) return report;
  const Json& environment = config["environment"];
  if (!environment.contains("kernels") || !environment["kernels"].is_array()) return report;
  for (const Json& kernel : environment["kernels"]) {
    if (!kernel.is_object()) fail("{}: kernels: expected objects", where);
    const auto word = [&](const char* key) {
      if (!kernel.contains(key) || !kernel[key].is_string()) fail("{}: kernels: expected a string {}", where, key);
      return kernel[key].get<std::string>();
    };
    report.kernels.push_back({word("operation"), word("kernel"), word("types"),
                              static_cast<uint64_t>(std::max(0.0, number(kernel, "calls", 0, where))),
                              number(kernel, "seconds", 0, where)});
  }
  return report;
}

std::vector<Comparison> compare_phases(const BenchReport& before, const BenchReport& after, double threshold) {
  std::vector<Comparison> result;
  for (const Phase& phase : after.phases) {
    const auto old = std::find_if(before.phases.begin(), before.phases.end(),
                                  [&](const Phase& candidate) { return candidate.name == phase.name; });
    if (old == before.phases.end()) continue;
    if (!old->seconds.empty() && !phase.seconds.empty()) {
      const bool once = old->seconds.size() == 1 || phase.seconds.size() == 1;
      const Latency then = latency_of(old->seconds), now = latency_of(phase.seconds);
      Comparison one = compared(phase.name, "latency", then.p50, now.p50,
                                once ? std::max(threshold, kSingleRunThreshold) : threshold);
      // Two runs of one program differ by more than their medians' error; where most of their values lie apart, the
      // program has changed.
      if (!once && now.p10 <= then.p90) one.regression = false;
      result.push_back(std::move(one));
    }
    if (old->max_ram > 0 && phase.max_ram > 0)
      result.push_back(compared(phase.name, "max_ram", old->max_ram, phase.max_ram, threshold));
  }
  return result;
}

std::vector<Comparison> compare_kernels(const BenchReport& before, const BenchReport& after, double threshold) {
  struct Sum {
    double seconds = 0, calls = 0;
    double mean() const { return calls > 0 ? seconds / calls : 0; }
  };
  // What the device calls its kernels may change from version to version; what they compute does not.
  const auto sums_of = [](const BenchReport& report) {
    std::map<std::string, Sum> sums;
    for (const KernelTime& kernel : report.kernels) {
      Sum& sum = sums[kernel.operation + "  " + kernel.types];
      sum.seconds += kernel.seconds;
      sum.calls += static_cast<double>(kernel.calls);
    }
    return sums;
  };
  const std::map<std::string, Sum> old = sums_of(before), now = sums_of(after);
  double total = 0;
  for (const auto& [name, sum] : now) total += sum.seconds;
  std::vector<Comparison> result;
  for (const auto& [name, sum] : now) {
    const auto found = old.find(name);
    if (found == old.end()) continue;
    Comparison one = compared(name, "latency", found->second.mean(), sum.mean(), threshold);
    one.share = total > 0 ? sum.seconds / total : 0;
    if (one.share < 0.01) one.regression = false;
    result.push_back(std::move(one));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Comparison& a, const Comparison& b) { return a.share > b.share; });
  return result;
}

}  // namespace transom
