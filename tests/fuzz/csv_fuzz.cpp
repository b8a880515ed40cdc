// SPDX-License-Identifier: Apache-2.0
// The readers of data files: the first byte chooses the format, the rest is the file.
#include <cstddef>
#include <cstdint>

#include "data/column_types.h"
#include "data/row_format.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr const char* kNames[] = {"fuzz.csv", "fuzz.tsv", "fuzz.jsonl", "fuzz.conll", "fuzz.txt"};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const auto format = transom::format_of(kNames[data[0] % 5], text, {});
    std::vector<std::string> columns = format->columns();
    transom::Row row;
    size_t position = format->start();
    std::vector<transom::ColumnTypeFinder> finders;
    for (int64_t number = 1; format->read(position, number, columns, row); ++number) {
      finders.resize(columns.size(), transom::ColumnTypeFinder(format->untyped()));
      for (size_t i = 0; i < row.size(); ++i) {
        finders[i].add(row[i], "fuzz");
        transom::to_column_type(row[i], finders[i].type());
      }
    }
  } catch (const transom::Error&) {
  }
  return 0;
}
