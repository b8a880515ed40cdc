// SPDX-License-Identifier: Apache-2.0
// No exception crosses the interface: each becomes a status and one line of text.
#pragma once

#include <cstdio>
#include <new>

#include "cpu/error.h"

namespace transom::cpu {

inline transom_status report(transom_error* error, transom_status status, const char* text) {
  std::snprintf(error->text, sizeof error->text, "cpu: %s", text);
  return status;
}

template <typename Body>
transom_status guarded(transom_error* error, Body&& body) noexcept {
  try {
    body();
    return TRANSOM_OK;
  } catch (const Failure& failure) {
    return report(error, failure.status(), failure.what());
  } catch (const std::bad_alloc&) {
    return report(error, TRANSOM_OUT_OF_MEMORY, "no memory");
  } catch (const std::exception& exception) {
    return report(error, TRANSOM_INTERNAL, exception.what());
  } catch (...) {
    return report(error, TRANSOM_INTERNAL, "an exception of unknown type");
  }
}

}  // namespace transom::cpu
