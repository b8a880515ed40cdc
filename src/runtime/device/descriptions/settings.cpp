// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/descriptions/settings.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/json/json.h"
#include "runtime/device/descriptions/descriptions.h"
#include "runtime/device/plugin.h"
#include "transom/device.h"

namespace transom {
namespace {

bool is_set(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  return value && *value;
}

}  // namespace

Json ask_settings(const std::string& device, const Json& request, bool asks_anyway) {
  const std::shared_ptr<const DeviceDescription> description = description_of(device);
  if (!description || description->library.empty()) return Json::object();
  if (!asks_anyway && std::none_of(description->variables.begin(), description->variables.end(), is_set))
    return Json::object();
  const std::shared_ptr<const Plugin> plugin = Plugin::load(description->library);
  const transom_plugin& table = plugin->table();
  if (!table.settings)
    fail(ErrorKind::kDevice, "{}: has a description with arguments or variables, and no function settings",
         description->library.string());
  std::string answer;
  transom_error error{};
  const transom_status status = table.settings(
      dump_json(request).c_str(), [](void* context, const char* text) { *static_cast<std::string*>(context) = text; },
      &answer, &error);
  if (status == TRANSOM_INVALID_ARGUMENT) fail(ErrorKind::kUsage, "{}", text_of(error.text, sizeof error.text));
  expect_ok(status, error, description->library.string());
  Json made = parse_json(answer, description->library.string() + ": settings");
  if (!made.is_object())
    fail(ErrorKind::kDevice, "{}: settings: expected an object, found {}", description->library.string(), answer);
  return made;
}

DeviceDefaults device_defaults() {
  DeviceDefaults defaults;
  // A device is opened only where one of the variables is set that a plugin answers for.
  const auto all = device_descriptions();
  if (std::none_of(all.begin(), all.end(), [](const auto& each) {
        return std::any_of(each->variables.begin(), each->variables.end(), is_set);
      }))
    return defaults;
  const std::string device = device_name();
  const Json answer = ask_settings(device, {{"question", "defaults"}, {"device", device}});
  if (answer.contains("mode") && answer["mode"].is_string()) defaults.mode = answer["mode"].get<std::string>();
  defaults.gradient_checkpointing =
      answer.contains("gradient_checkpointing") && answer["gradient_checkpointing"] == true;
  return defaults;
}

}  // namespace transom
