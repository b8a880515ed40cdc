// SPDX-License-Identifier: Apache-2.0
// Errors of the library as exceptions of Python: the classes of transom/errors.py, by the kind of the error.
#include <deque>
#include <mutex>

#include "bindings.h"
#include "interrupts.h"
#include "transom/error.h"
#include "transom/log.h"

namespace transom::python {
namespace {

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const nb::object make = nb::module_::import_("transom.errors").attr("error_of_kind");
    const std::string_view kind = name_of(error.kind());
    const nb::object made = make(nb::str(kind.data(), kind.size()), nb::str(error.what()));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  }
}

// Messages come from any thread, which may not wait for the GIL here: who holds it may wait for the log. They are kept
// until a thread of Python takes them.
constexpr size_t kMostKept = 1000;
std::mutex lock;  // of the next
std::deque<std::pair<LogLevel, std::string>> kept;

void keep(LogLevel level, std::string_view text) {
  if (level == LogLevel::kDebug) return;
  const std::lock_guard guard(lock);
  if (kept.size() < kMostKept) kept.emplace_back(level, text);
}

}  // namespace

void pass_messages_on() {
  std::deque<std::pair<LogLevel, std::string>> messages;
  {
    const std::lock_guard guard(lock);
    messages.swap(kept);
  }
  if (messages.empty()) return;
  try {
    const nb::object logger = nb::module_::import_("logging").attr("getLogger")("transom");
    for (const auto& [level, text] : messages)
      logger.attr(level == LogLevel::kWarning ? "warning" : "info")("%s", nb::str(text.data(), text.size()));
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("a message of transom");
  }
}

void bind_errors(nb::module_& module) {
  nb::register_exception_translator(translate);
  set_log_sink(keep);
  module.def("finish", [] {
    const nb::gil_scoped_release released;
    set_log_sink({});
  });
}

}  // namespace transom::python
