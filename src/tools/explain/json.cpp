// SPDX-License-Identifier: Apache-2.0
// An explanation as JSON: all that the tables and the page show, in seconds, bytes and operations.
#include "base/json/json.h"
#include "tools/explain/explanation.h"

namespace transom {

Json explanation_json(const Explanation& e) {
  Json limits = {{"bandwidth", e.limits.bandwidth}, {"products", Json::object()}};
  for (const Limits::Products& products : e.limits.products)
    limits["products"][std::string(name_of(products.dtype))] = products.rate;
  Json passes = Json::array(), kernels = Json::array(), values = Json::array(), timeline = Json::array();
  for (const Explanation::Pass& pass : e.passes)
    passes.push_back({{"name", pass.name},
                      {"seconds", pass.seconds},
                      {"nodes", pass.nodes},
                      {"operations", pass.operations},
                      {"graph", pass.graph}});
  for (const Explanation::Kernel& k : e.kernels)
    kernels.push_back({{"node", k.node},
                       {"values", k.values},
                       {"operation", k.operation},
                       {"kind", k.kind},
                       {"kernel", k.kernel},
                       {"scope", k.scope},
                       {"types", k.types},
                       {"region", k.region.empty() ? Json() : Json(k.region)},
                       {"source", k.source.empty() ? Json() : Json(k.source)},
                       {"operations", k.operations},
                       {"bytes", k.bytes},
                       {"seconds", k.seconds},
                       {"limit_seconds", k.least},
                       {"limited_by", k.by_memory ? "memory" : "arithmetic"}});
  for (const Explanation::Value& value : e.values)
    values.push_back({{"name", value.name},
                      {"node", value.node},
                      {"offset", value.offset},
                      {"bytes", value.bytes},
                      {"first", value.first},
                      {"last", value.last}});
  for (const Explanation::Moment& moment : e.timeline)
    timeline.push_back({{"node", moment.node}, {"begin", moment.begin}, {"end", moment.end}});
  return {{"version", 1},
          {"model", e.model},
          {"model_type", e.model_type},
          {"task", e.task},
          {"dtype", e.dtype},
          {"device", e.device},
          {"device_notes", e.device_notes},
          {"mode", e.mode},
          {"threads", e.threads},
          {"batch_size", e.batch_size},
          {"sequence_length", e.sequence_length},
          {"samples", e.samples},
          {"programs", e.programs},
          {"pieces", e.pieces},
          {"host_nodes", e.host_nodes},
          {"machine", e.machine.empty() ? Json() : parse_json(e.machine, "machine profile")},
          {"run_seconds", e.run_seconds},
          {"kernel_seconds", e.kernel_seconds},
          {"compile_seconds", e.compile_seconds},
          {"limits", limits},
          {"passes", passes},
          {"kernels", kernels},
          {"memory",
           {{"arena_bytes", e.arena_bytes},
            {"live_maximum", e.live_maximum},
            {"input_bytes", e.input_bytes},
            {"output_bytes", e.output_bytes},
            {"donated_inputs", e.donated_inputs},
            {"live", e.live},
            {"values", values}}},
          {"timeline", timeline}};
}

}  // namespace transom
