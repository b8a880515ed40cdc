// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/api/api_error.h"

#include <new>

#include "base/json/json.h"
#include "base/terminal/log.h"

namespace transom::serve {
namespace {

const char* openai_type(int status) {
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

const char* tei_type(int status) {
  switch (status) {
    case 401:
      return "unauthorized";
    case 404:
      return "not_found";
    case 422:
      return "tokenizer";
    case 424:
      return "backend";
    case 429:
      return "overloaded";
    case 503:
      return "unhealthy";
    default:
      return status >= 500 ? "backend" : "validation";
  }
}

const char* anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 408:
      return "timeout_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

Json error_json(const ApiError& error, ErrorForm form) {
  if (form == ErrorForm::kTei) return {{"error", error.what()}, {"error_type", tei_type(error.status())}};
  if (form == ErrorForm::kAnthropic)
    return {{"type", "error"}, {"error", {{"type", anthropic_type(error.status())}, {"message", error.what()}}}};
  if (form == ErrorForm::kInference || form == ErrorForm::kOllama) return {{"error", error.what()}};
  const auto text = [](const std::string& value) { return value.empty() ? Json() : Json(value); };
  return {{"error",
           {{"message", error.what()},
            {"type", openai_type(error.status())},
            {"param", text(error.param())},
            {"code", text(error.code())}}}};
}

}  // namespace

ApiError api_error_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& known) {
    return known;
  } catch (const Error& known) {
    switch (known.kind()) {
      case ErrorKind::kInput:
      case ErrorKind::kUsage:
      case ErrorKind::kUnsupported:
        return {400, known.what()};
      case ErrorKind::kOutOfMemory:
        return {503, "the server is out of memory for this request; try a smaller one", "", kOutOfMemory};
      case ErrorKind::kInterrupted:
        return {503, "the server is ending"};
      default:
        break;
    }
    log(LogLevel::kWarning, known.what());
  } catch (const std::bad_alloc&) {
    return {503, "the server is out of memory for this request; try a smaller one", "", kOutOfMemory};
  } catch (const std::exception& unknown) {
    log(LogLevel::kWarning, unknown.what());
  }
  return {500, "the server failed on this request; its log says why"};
}

HttpResponse error_response(const ApiError& error, ErrorForm form) {
  HttpResponse response{.status = error.status(),
                        .body = error_json(error, form).dump(-1, ' ', false, Json::error_handler_t::replace)};
  if (error.status() == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.status() == 429 || error.status() == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

std::string error_body(const ApiError& error, ErrorForm form) {
  return error_json(error, form).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace transom::serve
