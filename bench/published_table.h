// SPDX-License-Identifier: Apache-2.0
// The table of published figures, and the case that a row of it is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/numbers.h"

namespace transom {

inline double number(const std::string& text) { return text.empty() ? 0 : parse_double(text).value_or(0); }

// RFC 4180, as far as the file needs it.
inline std::vector<std::map<std::string, std::string>> read_table(const std::string& file) {
  const std::string text = read_file(file);
  std::vector<std::vector<std::string>> lines(1, {""});
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && inside && i + 1 < text.size() && text[i + 1] == '"') lines.back().back() += text[++i];
    else if (c == '"') inside = !inside;
    else if (c == ',' && !inside) lines.back().emplace_back();
    else if (c == '\n' && !inside) lines.push_back({""});
    else if (c != '\r') lines.back().back() += c;
  }
  std::vector<std::map<std::string, std::string>> rows;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].size() != lines[0].size()) continue;
    auto& row = rows.emplace_back();
    for (size_t c = 0; c < lines[0].size(); ++c) row[lines[0][c]] = lines[i][c];
  }
  return rows;
}

inline Json case_of(const std::map<std::string, std::string>& row) {
  Json json;
  for (const char* name : {"id", "date", "task", "model", "phase", "dtype", "hardware", "software", "optimisations"})
    if (!row.at(name).empty()) json[name] = row.at(name);
  for (const char* name :
       {"parameters", "batch_per_device", "global_batch", "sequence_length", "output_length", "devices", "hosts"})
    if (!row.at(name).empty()) json[name] = number(row.at(name));
  return json;
}

}  // namespace transom
