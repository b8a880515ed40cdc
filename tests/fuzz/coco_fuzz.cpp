// SPDX-License-Identifier: Apache-2.0
// Files of COCO, and the masks of their objects.
#include <cstddef>
#include <cstdint>

#include "base/json/json.h"
#include "inputs/data/tables/coco_masks.h"
#include "rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  transom::read_rows("fuzz.json", text);
  try {
    const auto format = transom::coco_format("fuzz.json", text);
    std::vector<std::string> columns = format ? format->columns() : std::vector<std::string>();
    transom::Row row;
    for (size_t position = 0; format && format->read(position, 0, columns, row);)
      for (const transom::Json& mask : transom::parse_json(std::get<transom::JsonList>(row[3]).text, "fuzz"))
        transom::object_mask(transom::dump_json(mask), 15, 13, "fuzz");
  } catch (const transom::Error&) {
  }
  return 0;
}
