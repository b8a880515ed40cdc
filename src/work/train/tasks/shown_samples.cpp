// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/shown_samples.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "inputs/text/unicode/unicode.h"
#include "transom/distributed.h"

namespace transom {
namespace {

constexpr size_t kMostBytes = 400;

// In quotes, so that a text's own lines and marks stay one line; long ones are cut.
std::string shown_text(const std::string& text) {
  std::string whole = text::well_formed(text);
  if (whole.size() > kMostBytes) {
    size_t end = kMostBytes;
    while (end > 0 && (static_cast<unsigned char>(whole[end]) & 0xC0) == 0x80) --end;
    whole = whole.substr(0, end) + " ...";
  }
  return dump_json(Json(whole));
}

}  // namespace

int64_t samples_to_show(const ScriptArguments& script, int64_t otherwise) {
  return script.json ? 0 : script.num_samples_to_print.value_or(otherwise);
}

void show_samples(int64_t count, const std::vector<std::string>& wanted, const std::vector<std::string>& written) {
  const size_t shown = std::min({static_cast<size_t>(std::max<int64_t>(count, 0)), wanted.size(), written.size()});
  if (shown == 0 || process_rank() > 0) return;
  std::string lines = fmt::format("{} of {} texts of this evaluation:", shown, written.size());
  for (size_t i = 0; i < shown; ++i)
    lines += fmt::format("\n  wanted  {}\n  written {}", shown_text(wanted[i]), shown_text(written[i]));
  log(LogLevel::kInfo, lines);
}

}  // namespace transom
