// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/chat_template_path.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"

namespace transom {

std::string read_chat_template(const std::string& path, const Tokenizer& tokenizer) {
  if (path.ends_with(".jinja") || path.ends_with(".j2")) return read_file(path);
  if (!directory_exists(path))
    fail(ErrorKind::kUsage,
         "--chat_template_path: expected a file of Jinja (.jinja, .j2) or a directory with a tokenizer, "
         "found {}",
         quoted(path));
  const Tokenizer other = Tokenizer::from_pretrained(path);
  std::vector<std::string> missing;
  for (const int64_t id : other.all_special_ids())
    if (const auto token = other.id_to_token(id); token && !tokenizer.token_to_id(*token)) missing.push_back(*token);
  require(missing.empty(),
          "--chat_template_path: {} has special tokens that the model's tokenizer lacks ({}): expected them in its "
          "vocabulary, since a template that writes them would teach their letters",
          path, fmt::join(missing, ", "));
  return other.chat_template();
}

}  // namespace transom
