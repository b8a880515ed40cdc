// SPDX-License-Identifier: Apache-2.0
// One answer of a chat, taken out of the events of its stream.
#pragma once

#include <functional>
#include <string>

#include "apps/cli/chat/chat_service.h"

namespace transom {

struct ChatAnswer {
  std::string text, thoughts;
  std::string finish;    // why it ended: "stop", "length" ...
  bool stopped = false;  // by the user
};

// Shows pieces as they come. Throws Error for what the service refuses, and for streams that break off; where the
// service is loading the model it is asked again.
ChatAnswer ask_for_answer(ChatService& service, const std::string& body,
                          const std::function<void(std::string_view piece, bool is_thought)>& show,
                          const std::function<bool()>& stopped);

}  // namespace transom
