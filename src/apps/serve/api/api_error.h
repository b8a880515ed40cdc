// SPDX-License-Identifier: Apache-2.0
// Errors as clients see them, in the form of the interface that they called.
#pragma once

#include <exception>
#include <string>

#include "apps/serve/http/message.h"
#include "base/error.h"

namespace transom::serve {

// A request that is refused with a status. `param` names the field of the body, "" none; `code` as OpenAI has it.
class ApiError : public Error {
 public:
  ApiError(int status, const std::string& message, std::string param = "", std::string code = "")
      : Error(ErrorKind::kInput, message), status_(status), param_(std::move(param)), code_(std::move(code)) {}
  int status() const { return status_; }
  const std::string& param() const { return param_; }
  const std::string& code() const { return code_; }

 private:
  int status_;
  std::string param_, code_;
};

// 400 for a field of the body.
template <typename... Args>
[[noreturn]] void refuse_field(const std::string& param, fmt::format_string<Args...> text, Args&&... args) {
  throw ApiError(400, fmt::format(text, std::forward<Args>(args)...), param);
}

// How an interface writes its errors, and its streams (stream_form.h).
enum class ErrorForm {
  kOpenAi,     // {"error": {"message", "type", "param", "code"}}
  kAnthropic,  // {"type": "error", "error": {"type", "message"}}
  kTei,        // {"error": str, "error_type": str}, of text-embeddings-inference and text-generation-inference
  kInference,  // {"error": str}: Hugging Face's inference form
  kOllama,     // the same; its streams are lines
};

// The code of requests for which there is no memory: unlike others of status 503 they may never fit.
constexpr const char* kOutOfMemory = "out_of_memory";

// What an exception is to a client: its own status, 400 for what the library refuses of an input, 503 for memory that
// is exhausted, 500 for all else, whose text stays in the log.
ApiError api_error_of(const std::exception_ptr& error);
HttpResponse error_response(const ApiError& error, ErrorForm form);
// The body of the same, for a stream that has begun.
std::string error_body(const ApiError& error, ErrorForm form);

}  // namespace transom::serve
