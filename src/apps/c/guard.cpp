// SPDX-License-Identifier: Apache-2.0
#include "apps/c/guard.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

transom_code status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return TRANSOM_CODE_USAGE;
    case ErrorKind::kInput:
      return TRANSOM_CODE_INPUT;
    case ErrorKind::kDevice:
      return TRANSOM_CODE_DEVICE;
    case ErrorKind::kOutOfMemory:
      return TRANSOM_CODE_OUT_OF_MEMORY;
    case ErrorKind::kUnsupported:
      return TRANSOM_CODE_UNSUPPORTED;
    case ErrorKind::kDeviceLost:
      return TRANSOM_CODE_DEVICE_LOST;
    case ErrorKind::kInterrupted:
      return TRANSOM_CODE_INTERRUPTED;
    case ErrorKind::kInternal:
      return TRANSOM_CODE_INTERNAL;
  }
  return TRANSOM_CODE_INTERNAL;
}

transom_code write(transom_failure* error, transom_code status, std::string_view message) {
  if (error) {
    error->status = status;
    size_t bytes = std::min(message.size(), sizeof(error->message) - 1);
    // A character of several bytes is not cut.
    while (bytes < message.size() && bytes > 0 && (static_cast<unsigned char>(message[bytes]) & 0xC0) == 0x80) --bytes;
    std::memcpy(error->message, message.data(), bytes);
    error->message[bytes] = 0;
  }
  return status;
}

}  // namespace

transom_code guarded(transom_failure* error, const std::function<void()>& work) {
  try {
    work();
    return write(error, TRANSOM_CODE_OK, "");
  } catch (const Error& caught) {
    return write(error, status_of(caught.kind()), caught.what());
  } catch (const std::bad_alloc&) {
    return write(error, TRANSOM_CODE_OUT_OF_MEMORY, "the memory of the host is exhausted");
  } catch (const std::exception& caught) {
    return write(error, TRANSOM_CODE_INTERNAL, caught.what());
  } catch (...) {
    return write(error, TRANSOM_CODE_INTERNAL, "an exception of an unknown type");
  }
}

std::string required(const char* text, const char* argument) {
  if (!text) fail(ErrorKind::kUsage, "{}: expected a text, found NULL", argument);
  return text;
}

std::string object_or_empty(const char* text) { return text ? text : "{}"; }

void give_text(char** text, std::string_view value) {
  if (!text) return;
  *text = static_cast<char*>(std::malloc(value.size() + 1));
  if (!*text) throw std::bad_alloc();
  std::memcpy(*text, value.data(), value.size());
  (*text)[value.size()] = 0;
}

PipelineOptions loading_options(const char* options, bool takes_batches, const std::string& where) {
  PipelineOptions result;
  std::string dtype(result.dtype.name()), quantization(result.quantization.name()),
      activations(result.activations.name()), token;
  const Json given = parse_json(object_or_empty(options), where);
  if (!given.is_object())
    fail(ErrorKind::kUsage, "{}: expected a JSON object, found {}", where, quoted(dump_json(given)));
  for (const auto& [name, value] : given.items()) {
    std::string* text = name == "device"         ? &result.device
                        : name == "dtype"        ? &dtype
                        : name == "quantization" ? &quantization
                        : name == "activations"  ? &activations
                        : name == "revision"     ? &result.hub.revision
                        : name == "token"        ? &token
                                                 : nullptr;
    const bool is_batch_size = takes_batches && name == "batch_size";
    if (!text && !is_batch_size)
      fail(ErrorKind::kUsage, "{}: {} is not known{}", where, quoted(name),
           did_you_mean(name, {"device", "dtype", "quantization", "activations", "batch_size", "revision", "token"}));
    if (text ? !value.is_string() : !value.is_number_integer())
      fail(ErrorKind::kUsage, "{}: {}: expected {}, found {}", where, name, text ? "a string" : "an integer",
           quoted(dump_json(value)));
    if (text) *text = value.get<std::string>();
    else result.batch_size = value.get<int64_t>();
    if (name == "token") result.hub.token = token;
  }
  result.dtype = dtype, result.quantization = quantization, result.activations = activations;
  return result;
}

}  // namespace transom

extern "C" {

int32_t transom_c_version(void) { return TRANSOM_C_VERSION; }

const char* transom_code_name(transom_code status) {
  switch (status) {
    case TRANSOM_CODE_OK:
      return "ok";
    case TRANSOM_CODE_USAGE:
      return "usage";
    case TRANSOM_CODE_INPUT:
      return "input";
    case TRANSOM_CODE_DEVICE:
      return "device";
    case TRANSOM_CODE_OUT_OF_MEMORY:
      return "out_of_memory";
    case TRANSOM_CODE_UNSUPPORTED:
      return "unsupported";
    case TRANSOM_CODE_DEVICE_LOST:
      return "device_lost";
    case TRANSOM_CODE_INTERRUPTED:
      return "interrupted";
    case TRANSOM_CODE_INTERNAL:
      return "internal";
  }
  return "unknown";
}

void transom_free(void* memory) { std::free(memory); }
}
