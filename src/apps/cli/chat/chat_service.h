// SPDX-License-Identifier: Apache-2.0
// Who answers a chat: a server elsewhere, or a model in this process, which answers as `transom serve` does.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "apps/cli/remote/remote_server.h"
#include "apps/serve/api/options.h"

namespace transom {

struct ChatReply {
  int status = 0;
  std::string body;      // of a status other than 200
  std::string failure;   // why the answer is not whole; empty: it is
  bool stopped = false;  // because `stopped` said so
};

class ChatService {
 public:
  virtual ~ChatService() = default;
  // POST /v1/chat/completions. `take` gets the pieces of the body of an answer with status 200; `stopped` is asked
  // about every 20 ms whether to give up. One call at a time.
  virtual ChatReply post(const std::string& body, const std::function<void(std::string_view piece)>& take,
                         const std::function<bool()>& stopped) = 0;
  // The model's name in requests.
  virtual const std::string& model() const = 0;
};

// Loads the one model of `options`. Throws Error where it does not write text.
std::unique_ptr<ChatService> local_chat_service(const serve::ServeOptions& options);
// The model of that name there; empty: the first one. Throws Error that names the URL.
std::unique_ptr<ChatService> remote_chat_service(const RemoteOptions& remote, const std::string& model);

}  // namespace transom
