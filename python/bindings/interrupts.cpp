// SPDX-License-Identifier: Apache-2.0
// A handler of signals may do little: it wakes a thread, which requests the stop.
#include "interrupts.h"

#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

namespace transom::python {
namespace {

sem_t wake_up;
struct sigaction before;  // Python's
int depth = 0;            // under the GIL, on the main thread alone
std::mutex lock;          // of the next
std::stop_source current;
// Of the outermost scope. A signal belongs to the scope that it came in: the thread below may wake up in a later one.
std::atomic<uint64_t> scope_number = 0, signalled = 0;
static_assert(std::atomic<uint64_t>::is_always_lock_free);

void receive(int signal, siginfo_t* info, void* context) {
  const uint64_t number = scope_number;
  // Python notes it first: whoever is stopped finds its exception.
  if ((before.sa_flags & SA_SIGINFO) != 0) before.sa_sigaction(signal, info, context);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(signal);
  signalled = number;
  ::sem_post(&wake_up);
}

void start_watcher() {
  static const bool started = [] {
    ::sem_init(&wake_up, 0, 0);
    std::thread([] {
      sigset_t all;  // signals are for the other threads
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
      for (;;) {
        if (::sem_wait(&wake_up) != 0) continue;
        const std::lock_guard guard(lock);
        if (signalled == scope_number) current.request_stop();
      }
    }).detach();
    return true;
  }();
  (void)started;
}

// Whether this is the main thread and Ctrl-C raises KeyboardInterrupt, as long as nobody set another handler.
bool raises_keyboard_interrupt() {
  namespace nb = nanobind;
  static PyObject* const signals = PyImport_ImportModule("signal");
  static PyObject* const threads = PyImport_ImportModule("threading");
  if (!signals || !threads) {
    PyErr_Clear();
    return false;
  }
  const nb::object main = nb::steal(PyObject_CallMethod(threads, "main_thread", nullptr));
  const nb::object identifier = main.is_valid() ? nb::steal(PyObject_GetAttrString(main.ptr(), "ident")) : nb::object();
  const nb::object handler = nb::steal(PyObject_CallMethod(signals, "getsignal", "i", SIGINT));
  const nb::object usual = nb::steal(PyObject_GetAttrString(signals, "default_int_handler"));
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  return identifier.is_valid() && PyLong_Check(identifier.ptr()) &&
         PyLong_AsUnsignedLong(identifier.ptr()) == PyThread_get_thread_ident() && handler.ptr() == usual.ptr();
}

}  // namespace

SignalScope::SignalScope() {
  if (!raises_keyboard_interrupt()) return;
  watches_ = true;
  if (depth++ > 0) return;
  start_watcher();
  {
    const std::lock_guard guard(lock);
    current = std::stop_source();
    ++scope_number;
  }
  struct sigaction action {};
  action.sa_sigaction = receive;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, nullptr, &before);
  ::sigaction(SIGINT, &action, nullptr);
}

SignalScope::~SignalScope() {
  if (!watches_ || --depth > 0) return;
  ::sigaction(SIGINT, &before, nullptr);
  const std::lock_guard guard(lock);
  ++scope_number;
}

std::stop_token SignalScope::token() const {
  if (!watches_) return {};
  const std::lock_guard guard(lock);
  return current.get_token();
}

}  // namespace transom::python
