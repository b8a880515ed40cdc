// SPDX-License-Identifier: Apache-2.0
// File formats as readers of rows. A reader holds no position, so that any row can be read again from its offset.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transom/dataset.h"

namespace transom {

class RowFormat {
 public:
  virtual ~RowFormat() = default;
  // Where the first row begins.
  virtual size_t start() const = 0;
  // Reads the row at or after `position` and moves `position` behind it; false where there is none any more. Values
  // have the types of the file (those of CSV are all strings) and stand by `columns`, which grows where a row of JSON
  // has a new name. `number` counts rows from 1 for errors.
  virtual bool read(size_t& position, int64_t number, std::vector<std::string>& columns, Row& row) const = 0;
  // The columns known before any row is read.
  virtual std::vector<std::string> columns() const { return {}; }
  // Whether strings may stand for numbers (CSV).
  virtual bool untyped() const { return false; }
};

// `name` is the file's, for errors; `text` must outlive the format.
std::unique_ptr<RowFormat> csv_format(std::string name, std::string_view text, const DatasetOptions& options,
                                      bool tabs);
std::unique_ptr<RowFormat> json_format(std::string name, std::string_view text);
// A file of COCO; null where it is none.
std::unique_ptr<RowFormat> coco_format(const std::string& name, std::string_view text);
std::unique_ptr<RowFormat> conll_format(std::string name, std::string_view text);
std::unique_ptr<RowFormat> lines_format(std::string name, std::string_view text, bool keep_linebreaks);
// The format that the file's name asks for.
std::unique_ptr<RowFormat> format_of(const std::filesystem::path& path, std::string_view text,
                                     const DatasetOptions& options);

// The offset behind a UTF-8 byte order mark; an error for UTF-16.
size_t skip_byte_order_mark(const std::string& name, std::string_view text);
// Refuses more columns than any data set has: every row, however short, takes memory for all of them.
void check_column_count(size_t count, const std::string& name);
// The line at `position` without its end ("\n" or "\r\n"); moves `position` behind it.
std::string_view take_line(std::string_view text, size_t& position);
// Refuses text that is not UTF-8.
void check_utf8(std::string_view text, const std::string& name, int64_t row);

}  // namespace transom
