// SPDX-License-Identifier: Apache-2.0
// JSON documents of modest size (configurations, records). Large ones (tokenizer.json) are read with simdjson where
// they are read. The full nlohmann header costs three seconds of compile time: include this only in .cpp files.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace transom {

using Json = nlohmann::ordered_json;  // keeps the order of the keys, as Python does

// Parses text from outside. Refuses documents nested deeper than 200 levels and objects of more than 50000 keys.
// Python's json module writes NaN and Infinity, which JSON has not: they are read as null and as the largest double.
// `where` names the source in the error.
Json parse_json(std::string_view text, std::string_view where);
// The same for objects with many keys: Json looks each one up from the front, this sorts them.
nlohmann::json parse_large_json(std::string_view text, std::string_view where);
Json read_json(const std::filesystem::path& path);

// As Python's json.dumps writes it: `indent` spaces (negative: one line, ", " and ": " between items), NaN and Infinity
// by their Python names, non-ASCII characters escaped when `ascii`.
std::string dump_json(const Json& json, int indent = -1, bool ascii = false);

// A number as Python's repr writes it: "0.1", "1.0", "1e-05".
std::string python_float(double value);

}  // namespace transom
