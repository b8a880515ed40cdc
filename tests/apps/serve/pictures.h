// SPDX-License-Identifier: Apache-2.0
// Requests with the pictures of tests/golden/image.
#pragma once

#include <filesystem>
#include <string>

#include "apps/serve/golden_server.h"
#include "base/files/files.h"
#include "base/text/base64.h"

namespace transom::test {

inline std::filesystem::path path_of_picture(const std::string& file) { return golden_folder() / "image" / file; }
inline std::string picture(const std::string& file) { return read_file(path_of_picture(file)); }
inline std::string url_of(const std::string& bytes) { return "data:image/png;base64," + to_base64(bytes); }
inline Json text_part(const std::string& text) { return {{"type", "text"}, {"text", text}}; }
inline Json url_part(const std::string& url) { return {{"type", "image_url"}, {"image_url", {{"url", url}}}}; }

// A request for the likeliest tokens.
inline Json chat_of_messages(const Json& messages, const std::string& model, int64_t most = 8) {
  return {{"model", model}, {"messages", messages}, {"max_tokens", most}, {"temperature", 0}};
}

inline Answer post(const serve::Server& server, const std::string& path, const Json& body) {
  Client client(server.port());
  return client.post(path, dump_json(body));
}

inline Json chat_answer(const serve::Server& server, const Json& body) {
  const Answer answer = post(server, "/v1/chat/completions", body);
  EXPECT_EQ(answer.status, 200) << answer.body;
  return json_of(answer);
}

}  // namespace transom::test
