// SPDX-License-Identifier: Apache-2.0
// A plugin with one fault, which FAULT names when it is built: the null device, damaged.
#include <csignal>
#include <stdexcept>

#define transom_plugin_open null_plugin_open
#include "../../../backends/null/null.cpp"
#undef transom_plugin_open

#define WRONG_VERSION 1
#define NO_ENTRY 2
#define CRASH_AT_LOAD 3
#define ABORT_AT_COUNT 4
#define EXIT_AT_OPEN 5
#define LACKS_RUN 6
#define HALF_OF_CAPTURE 7
#define SHORT_TABLE 8
#define OTHER_NAME 9
#define NO_DEVICE 10
#define OUT_OF_MEMORY 11
#define VANISHES 12
#define UNRESOLVED 13
#define HANGS 14
#define LONG_NAME 15
#define THROWS 16

namespace {

transom_status failure(transom_status status, transom_error* error, const char* text) {
  std::snprintf(error->text, sizeof error->text, "null: %s", text);
  return status;
}

transom_status unavailable(uint32_t*, transom_error* error) {
  return failure(TRANSOM_UNAVAILABLE, error, "no driver\n(looked for it in two places)\n");
}
transom_status abort_in_count(uint32_t*, transom_error*) { std::abort(); }
transom_status throw_in_count(uint32_t*, transom_error*) { throw std::runtime_error("thrown across the interface"); }
transom_status no_memory(transom_device*, size_t bytes, transom_buffer** buffer, transom_error* error) {
  if (bytes > 1000) return failure(TRANSOM_OUT_OF_MEMORY, error, "1000 bytes are all there is");
  return transom::plugin::guarded(error, [&] { Table::buffer_allocate(&the_device, bytes, buffer); });
}
// The device that runs something first is lost for good; those that are opened later are well.
transom_stream* lost_stream;
transom_status vanish(transom_executable*, const transom_launch* launch, transom_error* error) {
  if (!lost_stream) lost_stream = launch->stream;
  if (launch->stream != lost_stream) return TRANSOM_OK;
  return failure(TRANSOM_DEVICE_LOST, error, "it fell off the bus");
}
transom_status describe_without_end(uint32_t, transom_device_properties* properties, transom_error*) {
  std::memset(properties->name, 'n', sizeof properties->name);
  std::memset(properties->architecture, 'a', sizeof properties->architecture);
  return TRANSOM_OK;
}

#if FAULT == CRASH_AT_LOAD
struct Crash {
  Crash() { std::raise(SIGSEGV); }
} crash;
#endif

}  // namespace

#if FAULT == UNRESOLVED
extern "C" void a_function_that_no_library_has();
#endif

#if FAULT != NO_ENTRY
extern "C" TRANSOM_PLUGIN_EXPORT transom_status transom_plugin_open(const transom_host*, transom_plugin*,
                                                                    transom_error*);

transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin, transom_error* error) {
  const transom_status status = null_plugin_open(host, plugin, error);
  plugin->name = NAME;
  switch (FAULT) {
    case WRONG_VERSION:
      plugin->major = 7;
      break;
    case EXIT_AT_OPEN:
      std::exit(3);
    case ABORT_AT_COUNT:
      plugin->device_count = abort_in_count;
      break;
    case LACKS_RUN:
      plugin->run = nullptr;
      break;
    case HALF_OF_CAPTURE:
      plugin->capture_begin = [](transom_stream*, transom_error*) { return TRANSOM_OK; };
      break;
    case SHORT_TABLE:
      plugin->struct_size = 64;
      break;
    case OTHER_NAME:
      plugin->name = "another";
      break;
    case NO_DEVICE:
      plugin->device_count = unavailable;
      break;
    case OUT_OF_MEMORY:
      plugin->buffer_allocate = no_memory;
      plugin->buffer_import = nullptr;
      break;
    case VANISHES:
      plugin->run = vanish;
      break;
    case HANGS:
      while (true) std::signal(SIGUSR1, SIG_IGN);
    case LONG_NAME:
      plugin->device_describe = describe_without_end;
      break;
    case THROWS:
      plugin->device_count = throw_in_count;
      break;
    default:
      break;
  }
#if FAULT == UNRESOLVED
  a_function_that_no_library_has();
#endif
  return status;
}
#endif
