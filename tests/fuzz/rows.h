// SPDX-License-Identifier: Apache-2.0
// All rows of a data file in memory, as Dataset::load reads them. Only transom::Error is caught.
#pragma once

#include <string_view>
#include <vector>

#include "inputs/data/column_types.h"
#include "inputs/data/tables/row_format.h"
#include "transom/error.h"

namespace transom {

inline void read_rows(const char* name, std::string_view text) {
  try {
    const auto format = format_of(name, text, {});
    std::vector<std::string> columns = format->columns();
    Row row;
    size_t position = format->start();
    std::vector<ColumnTypeFinder> finders;
    for (int64_t number = 1; format->read(position, number, columns, row); ++number) {
      finders.resize(columns.size(), ColumnTypeFinder(format->untyped()));
      for (size_t i = 0; i < row.size(); ++i) {
        finders[i].add(row[i], "fuzz");
        to_column_type(row[i], finders[i].type());
      }
    }
  } catch (const Error&) {
  }
}

}  // namespace transom
