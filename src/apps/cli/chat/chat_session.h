// SPDX-License-Identifier: Apache-2.0
// A conversation in the terminal: what was said, what is set, and the lines that begin with a slash.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace transom {

// What may be set, by the names of requests.
struct ChatSetting {
  const char* name;
  enum Kind { kNumber, kInteger, kBoolean, kText } kind;
  const char* help;
  const char* other_name = "";  // that `transom generate` has for it
};
const std::vector<ChatSetting>& chat_settings();

class ChatSession {
 public:
  // Throws Error (kUsage) for a name that is none and a word that is none of its values.
  void set(const std::string& name, const std::string& word);
  void set_system(const std::string& text) { system_ = text; }
  const Json& settings() const { return settings_; }

  // ---- turns
  // The user's next turn, with the pictures and files that wait for it.
  void say(const std::string& text);
  // The body of the request that asks for the answer.
  Json request(const std::string& model) const;
  void take_answer(const std::string& text, const std::string& thoughts);
  // The user's turn is taken back, as nothing has answered it; its pictures and files wait again.
  void undo_turn();
  const Json& messages() const { return messages_; }

  // ---- lines that begin with a slash
  enum class Next { kRead, kAnswer, kEnd };
  struct Outcome {
    Next next = Next::kRead;
    std::string text;  // to be shown
  };
  // Throws Error, after which the session is as before.
  Outcome command(std::string_view line);

 private:
  Outcome change_system(const std::string& text);
  std::string save(const std::string& file) const;
  std::string load(const std::string& file);
  std::string add_image(const std::string& file);
  std::string add_text(const std::string& file);
  std::string set_by_line(const std::string& words);
  Outcome answer_again();
  std::string undo();

  std::string system_;
  Json messages_ = Json::array(), settings_ = Json::object();
  struct Waiting {
    Json images = Json::array();  // parts of a message
    std::string text;
  };
  Waiting waiting_, said_;  // for the next turn; of the last one
};

}  // namespace transom
