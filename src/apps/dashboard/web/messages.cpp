// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/web/messages.h"

#include "base/json/json.h"

namespace transom::dashboard {
namespace {

// Not dump_json: a name that is no UTF-8 must not end the connection, and the page reads no NaN.
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json series_json(const std::vector<Series>& all) {
  Json json = Json::object();
  for (const Series& series : all) {
    Json& points = json[series.name()] = Json::array();
    for (const Point& point : series.points()) points.push_back({point.step, point.value});
  }
  return json;
}

Json kernels_json(const KernelTable& table) {
  if (table.number == 0) return nullptr;
  Json rows = Json::array();
  for (const KernelRow& row : table.rows)
    rows.push_back({{"operation", row.operation},
                    {"kernel", row.kernel},
                    {"types", row.types},
                    {"calls", row.calls},
                    {"seconds", row.seconds}});
  return {{"first_step", table.first_step}, {"steps", table.steps}, {"seconds", table.seconds}, {"rows", rows}};
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

std::string view_message(const RunView& view) {
  const RunStatus& s = view.status;
  Json messages = Json::array();
  for (const Message& message : view.messages)
    messages.push_back({{"text", message.text}, {"warning", message.warning}});
  const Json status = {{"phase", name_of(s.phase)},
                       {"model", s.model},
                       {"task", s.task},
                       {"output_dir", s.output_dir},
                       {"device", s.device},
                       {"precision", s.precision},
                       {"processes", s.processes},
                       {"threads", s.threads},
                       {"step", s.step},
                       {"max_steps", s.max_steps},
                       {"epoch", s.epoch},
                       {"epochs", s.epochs},
                       {"seconds", s.seconds},
                       {"seconds_left", or_null(s.seconds_left)},
                       {"steps_per_second", s.steps_per_second},
                       {"samples_per_second", s.steps_per_second * static_cast<double>(s.samples_per_step)},
                       {"memory", s.memory.resident},
                       {"memory_peak", s.memory.resident_peak},
                       {"device_memory", s.memory.device},
                       {"device_memory_peak", s.memory.device_peak},
                       {"device_memory_limit", s.memory.device_limit},
                       {"saved_step", or_null(s.saved_step)}};
  return text_of({{"status", status},
                  {"series", series_json(view.series)},
                  {"messages", messages},
                  {"kernels", kernels_json(view.kernels)},
                  {"number", view.number}});
}

std::string runs_message(const std::vector<SavedRun>& runs) {
  Json json = Json::array();
  for (size_t i = 0; i < runs.size(); ++i)
    json.push_back({{"id", i}, {"name", runs[i].name}, {"directory", runs[i].directory.string()}});
  return text_of(json);
}

std::string series_message(const std::vector<Series>& series) { return text_of({{"series", series_json(series)}}); }

}  // namespace transom::dashboard
