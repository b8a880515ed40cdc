// SPDX-License-Identifier: Apache-2.0
// Bodies of the type multipart/form-data (RFC 7578).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace transom::serve {

struct FormPart {
  std::string name, file_name, content_type;
  std::string_view content;  // inside of the body
};

// The parts in order. Throws ApiError 400: no boundary, one of more than 70 bytes, more than 16 parts, a body that does
// not end as it must.
std::vector<FormPart> parse_multipart(std::string_view body, std::string_view content_type);

}  // namespace transom::serve
