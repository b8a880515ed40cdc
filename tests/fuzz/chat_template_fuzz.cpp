// SPDX-License-Identifier: Apache-2.0
// Any bytes as a chat template.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "inputs/text/chat_template.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  const std::string source(reinterpret_cast<const char*>(data), size);
  ChatOptions options;
  options.add_generation_prompt = true;
  options.tools = R"([{"type": "function", "function": {"name": "weather", "parameters": {"city": [1, 2.5, null]}}}])";
  try {
    text::render_chat(source, R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hello "},
                                  {"role": "assistant", "content": "x", "tool_calls": [{"id": "a"}]}])",
                      options, {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  } catch (const Error&) {
  }
  return 0;
}
