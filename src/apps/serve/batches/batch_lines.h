// SPDX-License-Identifier: Apache-2.0
// The lines of a batch: requests as OpenAI's files have them, and what is written of their answers.
// https://platform.openai.com/docs/api-reference/batch
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/http/message.h"
#include "base/json/json.h"

namespace transom::serve {

constexpr size_t kMostBatchLines = 50'000;

struct BatchLine {
  std::string custom_id;
  std::string body;  // JSON
};

// A line that is not taken: {"code", "message", "param", "line"}.
struct BatchFile {
  std::vector<BatchLine> lines;
  Json errors = Json::array();
};

// Each line is {"custom_id", "method": "POST", "url": endpoint, "body": {}}; custom_id is given once. At most 100
// errors are named.
BatchFile read_batch_file(std::string_view content, const std::string& endpoint);

// A line of the file of outputs, or of errors: the answer to a request.
std::string answered_line(const std::string& custom_id, const std::string& request_id, const HttpResponse& response);
// A line of the file of errors: a request that was not asked.
std::string unanswered_line(const std::string& custom_id, const std::string& code, const std::string& message);

// The custom_id of each line of a file that a batch was writing. What a killed server left of a last line is cut off.
std::set<std::string> written_lines(std::string& content);

}  // namespace transom::serve
