// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/tables/row_format.h"

#include <simdjson.h>

#include <algorithm>

#include "base/error.h"

namespace transom {

size_t skip_byte_order_mark(const std::string& name, std::string_view text) {
  require(!text.starts_with("\xFF\xFE") && !text.starts_with("\xFE\xFF"),
          "{}: expected UTF-8, found UTF-16; `iconv -f utf-16 -t utf-8` makes it", name);
  return text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
}

void check_column_count(size_t count, const std::string& name) {
  constexpr size_t kMaximumColumns = 10'000;
  require(count <= kMaximumColumns, "{}: expected at most {} columns, found more", name, kMaximumColumns);
}

std::string_view take_line(std::string_view text, size_t& position) {
  const size_t end = std::min(text.find('\n', position), text.size());
  std::string_view line = text.substr(position, end - position);
  position = std::min(end + 1, text.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void check_utf8(std::string_view text, const std::string& name, int64_t row) {
  require(simdjson::validate_utf8(text.data(), text.size()),
          "{}: row {}: expected UTF-8, found {}; of Latin-1, `iconv -f latin1 -t utf-8` makes it", name, row,
          transom::quoted(text, 40));
}

std::unique_ptr<RowFormat> format_of(const std::filesystem::path& path, std::string_view text,
                                     const DatasetOptions& options) {
  const std::string name = path.string();
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (!options.format.empty()) extension = "." + options.format;
  if (extension == ".csv") return csv_format(name, text, options, false);
  if (extension == ".tsv") return csv_format(name, text, options, true);
  if (extension == ".json")
    if (auto coco = coco_format(name, text)) return coco;
  if (extension == ".json" || extension == ".jsonl" || extension == ".ndjson") return json_format(name, text);
  if (extension == ".conll" || extension == ".bio" || extension == ".iob" || extension == ".iob2")
    return conll_format(name, text);
  if (extension == ".txt" || extension == ".text") return lines_format(name, text, options.keep_linebreaks);
  for (const std::string_view packed : {".gz", ".zst", ".bz2", ".xz", ".zip"})
    if (extension == packed) fail("{}: is compressed: unpack it first", name);
  for (const std::string_view table : {".parquet", ".arrow", ".feather"})
    if (extension == table)
      fail(
          "{}: is a table of Arrow or Parquet, which is not read: write it as JSON lines, as "
          "datasets.load_dataset(...)[\"train\"].to_json(\"rows.jsonl\") does",
          name);
  fail(
      "{}: expected a file that ends in .csv, .tsv, .json, .jsonl, .conll or .txt; for another ending give "
      "--file_format "
      "csv, tsv, json, conll or text",
      name);
}

}  // namespace transom
