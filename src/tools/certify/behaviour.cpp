// SPDX-License-Identifier: Apache-2.0
// Level 3: what the plugin interface promises beyond numbers.
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <unistd.h>

#include "base/error.h"
#include "base/memory/resident_memory.h"
#include "graph/ops/array_bytes.h"
#include "runtime/programs/captured_program.h"
#include "tools/certify/certify.h"
#include "tools/certify/values.h"
#include "transom/ops.h"

namespace transom::certify {
namespace {

// Why something is not as promised; empty: it is. "-" and a reason: the device does not offer it.
using Check = std::string (*)(const std::shared_ptr<Device>&, uint64_t seed);

constexpr int64_t kRows = 6, kColumns = 33;

// A step that has a bit of everything: products, rows, random numbers, a sum, and a value that replaces an input.
struct Step {
  Graph graph;
  std::vector<Array> inputs;

  explicit Step(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> real(-1, 1);
    std::vector<Tensor> leaves = {make_input({DType::kFloat32, {kRows, kColumns}}),
                                  make_input({DType::kFloat32, {kColumns, kColumns}}),
                                  make_input({DType::kInt64, {2}})};
    const Tensor &x = leaves[0], &w = leaves[1];
    const Tensor h = softmax(matmul(x, w, kAsGiven), kAsGiven) + dropout(x, leaves[2], 0.3);
    graph = make_graph({h, w - matmul(permute(x, {1, 0}), h, kAsGiven) * 0.01, reduce_sum(h, {0})}, leaves);
    for (const Tensor& leaf : leaves) {
      Array& array = inputs.emplace_back(leaf.type());
      for (double& value : array.real) value = real(random);
      for (int64_t& value : array.integer) value = static_cast<int64_t>(random() >> 2);
    }
  }
};

std::string differences(const std::vector<Array>& expected, const std::vector<Array>& found) {
  for (size_t o = 0; o < expected.size(); ++o)
    for (size_t i = 0; i < expected[o].real.size(); ++i)
      if (std::memcmp(&expected[o].real[i], &found[o].real[i], sizeof(double)) != 0)
        return fmt::format("output {} differs at element {}: expected {:.9g}, found {:.9g}", o, i, expected[o].real[i],
                           found[o].real[i]);
  return "";
}

transom_memory_statistics statistics_of(Device& device) {
  transom_memory_statistics statistics{.struct_size = sizeof(transom_memory_statistics)};
  transom_error error{};
  expect_ok(device.table().memory_statistics(device.handle(), &statistics, &error), error, device.name());
  return statistics;
}

std::string repeats(const std::shared_ptr<Device>& device, uint64_t seed) {
  Step step(seed);
  const std::vector<Array> first = run_on(device, step.graph, step.inputs);
  for (int i = 0; i < 4; ++i)
    if (std::string text = differences(first, run_on(device, step.graph, step.inputs)); !text.empty()) return text;
  return "";
}

std::string other_seeds_give_other_numbers(const std::shared_ptr<Device>& device, uint64_t seed) {
  Step step(seed);
  const std::vector<Array> first = run_on(device, step.graph, step.inputs);
  step.inputs[2].integer[0] += 1;
  if (differences(first, run_on(device, step.graph, step.inputs)).empty())
    return "another seed of random_bits gave the same numbers";
  return "";
}

std::string donation_changes_nothing(const std::shared_ptr<Device>& device, uint64_t seed) {
  Step step(seed);
  return differences(run_on(device, step.graph, step.inputs), run_on(device, step.graph, step.inputs, true));
}

std::string replay_equals_the_run(const std::shared_ptr<Device>& device, uint64_t seed) {
  const Step shape(seed);
  const auto program =
      std::make_shared<const Program>(device, shape.graph,
                                      ProgramOptions{std::vector<bool>(shape.inputs.size(), false),
                                                     std::vector<bool>(shape.inputs.size(), false), false});
  const auto buffers_of = [&](Step& step) {
    std::vector<std::shared_ptr<Buffer>> buffers;
    for (Array& input : step.inputs) buffers.push_back(device->upload(encode(input)));
    return buffers;
  };
  Step first(seed);
  CapturedProgram captured(program, buffers_of(first), std::vector<bool>(shape.inputs.size(), false));
  for (uint64_t i = 0; i < 4; ++i) {
    Step step(seed + i);
    const std::vector<Array> expected = run_on(device, step.graph, step.inputs);
    std::vector<Array> found;
    {
      const auto results = captured.replay(buffers_of(step));
      for (size_t o = 0; o < results.size(); ++o) {
        const Type& type = step.graph.outputs[o].type();
        std::vector<std::byte> bytes(static_cast<size_t>(elements(type.shape)) * size_of(type.dtype));
        results[o]->read(bytes);
        found.push_back(load_array(bytes.data(), type));
      }
    }
    if (const std::string text = differences(expected, found); !text.empty())
      return fmt::format("replay {}: {}", i, text);
  }
  return device->table().capture_begin ? "" : "-the device captures nothing; the host repeats the launch";
}

std::string copies_arrive(const std::shared_ptr<Device>& device, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{1} << 20}) {
    std::vector<std::byte> sent(size), back(size);
    for (std::byte& b : sent) b = static_cast<std::byte>(random());
    const std::shared_ptr<Buffer> from = device->upload(sent), to = device->allocate(size);
    transom_error error{};
    if (size > 0)
      expect_ok(device->table().copy_on_device(device->stream(), {from->handle(), 0}, {to->handle(), 0}, size, &error),
                error, device->name());
    to->read(back);
    if (back != sent) return fmt::format("{} bytes came back changed", size);
  }
  return "";
}

std::string refuses_what_breaks_the_interface(const std::shared_ptr<Device>& device, uint64_t) {
  const transom_plugin& table = device->table();
  const std::shared_ptr<Buffer> buffer = device->allocate(100);
  char bytes[256] = {};
  const auto refused = [&](transom_status status, const transom_error& error) {
    return status != TRANSOM_OK && text_of(error.text, sizeof error.text) != "";
  };
  transom_error error{};
  // One byte too far: where it is not refused it should not take this process down.
  if (!refused(table.copy_to_device(device->stream(), bytes, {buffer->handle(), 0}, 101, &error), error))
    return "a copy past the end of a buffer of 100 bytes was not refused";
  error = {};
  if (!refused(table.copy_to_host(device->stream(), {buffer->handle(), 64}, bytes, 64, &error), error))
    return "a copy from past the end of a buffer of 100 bytes was not refused";
  error = {};
  transom_device* none = nullptr;
  if (!refused(table.device_open(100000, &none, &error), error) || none) return "device 100000 was opened";
  const int64_t shape[] = {2};
  const transom_value values[] = {{TRANSOM_FLOAT32, 1, shape, -1, 0}, {TRANSOM_FLOAT32, 1, shape, -1, 0}};
  const int32_t in = 0, out = 1;
  const transom_node node = {
      sizeof(transom_node), "no_such_operation", "certify", &in, 1, &out, 1, nullptr, 0, nullptr};
  const transom_graph graph = {sizeof(transom_graph), values, 2, &node, 1, &in, 1, &out, 1, 0};
  transom_executable* executable = nullptr;
  error = {};
  if (!refused(table.compile(device->handle(), &graph, &executable, &error), error) || executable)
    return "a graph of an unknown operation was compiled";
  return "";
}

std::string recovers_from_too_large_a_request(const std::shared_ptr<Device>& device, uint64_t seed) {
  Step step(seed);
  const std::vector<Array> before = run_on(device, step.graph, step.inputs);
  const transom_plugin& table = device->table();
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX / 2, size_t{1} << 60}) {
    transom_buffer* buffer = nullptr;
    transom_error error{};
    const transom_status status = table.buffer_allocate(device->handle(), bytes, &buffer, &error);
    if (status == TRANSOM_OK) {
      table.buffer_free(buffer);
      return fmt::format("a buffer of {} bytes was given", bytes);
    }
    if (status != TRANSOM_OUT_OF_MEMORY || buffer)
      return fmt::format("a request of {} bytes ended with status {} instead of TRANSOM_OUT_OF_MEMORY", bytes,
                         static_cast<int>(status));
    if (text_of(error.text, sizeof error.text).empty()) return "TRANSOM_OUT_OF_MEMORY came without a text";
  }
  return differences(before, run_on(device, step.graph, step.inputs));
}

std::string keeps_its_memory_ceiling(const std::shared_ptr<Device>& device, uint64_t seed) {
  if (!device->table().memory_statistics) return "-no memory statistics";
  const uint64_t limit = statistics_of(*device).bytes_limit;
  if (limit == 0) return "-no limit is known";
  // Filling the memory of the host would take the machine down; it is asked for one byte too many instead.
  const bool fill = limit <= uint64_t{2} << 30 || !device->has(TRANSOM_DEVICE_HOST_MEMORY);
  std::vector<std::shared_ptr<Buffer>> held;
  std::string message;
  try {
    if (!fill) held.push_back(device->allocate(limit + 1));
    else
      for (int i = 0; i < 64; ++i) held.push_back(device->allocate(limit / 8));
  } catch (const Error& error) {
    message = error.what();
  }
  const transom_memory_statistics full = statistics_of(*device);
  if (message.empty()) {
    if (!fill) return "-the host gives more than there is";
    return fmt::format("{} buffers of {} bytes were given, the limit is {}", held.size(), limit / 8, limit);
  }
  if (message.find("out of device memory") == std::string::npos) return "the ceiling was met with: " + message;
  if (full.peak_bytes_in_use > limit || full.bytes_in_use > limit)
    return fmt::format("{} bytes are in use, the limit is {}", full.peak_bytes_in_use, limit);
  held.clear();
  Step step(seed);
  run_on(device, step.graph, step.inputs);
  return "";
}

// Without pages that are free and kept: a leak would take these first.
int64_t resident_without_kept() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  return resident_bytes();
}

std::string leaks_nothing(const std::shared_ptr<Device>& device, uint64_t seed) {
  Step step(seed);
  const Program program(device, step.graph, {std::vector<bool>(3, false), std::vector<bool>(3, false), false});
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (Array& input : step.inputs) buffers.push_back(device->upload(encode(input)));
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) program.run(buffers);
    device->synchronize();
    for (int i = 0; i < times / 10; ++i) run_on(device, step.graph, step.inputs);
  };
  const bool counted = device->table().memory_statistics != nullptr;
  run(200);  // as many as are measured: queues and histories are then as long as they become
  const transom_memory_statistics before = counted ? statistics_of(*device) : transom_memory_statistics{};
  const int64_t resident = resident_without_kept();
  run(200);
  const transom_memory_statistics after = counted ? statistics_of(*device) : transom_memory_statistics{};
  if (after.bytes_in_use > before.bytes_in_use)
    return fmt::format("200 runs left {} bytes of device memory in use", after.bytes_in_use - before.bytes_in_use);
  if (after.handles > before.handles) return fmt::format("200 runs left {} handles", after.handles - before.handles);
  // 200 runs that each lose a page, and half of that for what the process does besides.
  const int64_t allowed = 100 * sysconf(_SC_PAGESIZE), grown = resident_without_kept() - resident;
  if (grown > allowed) return fmt::format("200 runs made the process {} bytes larger", grown);
  return counted ? "" : "-no memory statistics; the process did not grow";
}

std::string events_complete(const std::shared_ptr<Device>& device, uint64_t seed) {
  const transom_plugin& table = device->table();
  if (!table.event_create) return "-no events";
  transom_error error{};
  transom_event *begin = nullptr, *end = nullptr;
  expect_ok(table.event_create(device->handle(), &begin, &error), error, device->name());
  expect_ok(table.event_create(device->handle(), &end, &error), error, device->name());
  expect_ok(table.event_record(begin, device->stream(), &error), error, device->name());
  Step step(seed);
  run_on(device, step.graph, step.inputs);
  expect_ok(table.event_record(end, device->stream(), &error), error, device->name());
  expect_ok(table.event_wait(end, device->stream(), &error), error, device->name());
  device->synchronize();
  int32_t done = 1;
  if (table.event_synchronize) expect_ok(table.event_synchronize(end, &error), error, device->name());
  if (table.event_query) expect_ok(table.event_query(end, &done, &error), error, device->name());
  double seconds = -1;
  expect_ok(table.event_elapsed(begin, end, &seconds, &error), error, device->name());
  table.event_destroy(begin);
  table.event_destroy(end);
  if (!done) return "an event is not complete after its stream was waited for";
  if (!(seconds >= 0 && seconds < 3600)) return fmt::format("{} seconds passed between two events", seconds);
  return "";
}

std::string profiles_each_node(const std::shared_ptr<Device>& device, uint64_t seed) {
  const transom_plugin& table = device->table();
  if (!table.profile) return "-no profiler";
  struct Seen {
    size_t calls = 0;
    bool backwards = false;
  } seen;
  transom_error error{};
  const auto callback = [](void* user, size_t, const char* kernel, uint64_t begin, uint64_t end) {
    auto& s = *static_cast<Seen*>(user);
    ++s.calls;
    s.backwards = s.backwards || end < begin || !kernel;
  };
  expect_ok(table.profile(device->handle(), callback, &seen, &error), error, device->name());
  Step step(seed);
  run_on(device, step.graph, step.inputs);
  device->synchronize();
  expect_ok(table.profile(device->handle(), nullptr, nullptr, &error), error, device->name());
  const size_t calls = seen.calls;
  run_on(device, step.graph, step.inputs);
  if (calls == 0) return "no node was reported";
  if (seen.calls != calls) return "nodes were reported after profiling had ended";
  return seen.backwards ? "a node ended before it began, or had no kernel" : "";
}

}  // namespace

std::string check_collectives(const std::shared_ptr<Device>& device, uint64_t seed);

void certify_behaviour(Recorder& recorder) {
  const std::pair<const char*, Check> checks[] = {
      {"repeats to the bit", repeats},
      {"other seeds give other numbers", other_seeds_give_other_numbers},
      {"donated inputs change nothing", donation_changes_nothing},
      {"replay equals the run", replay_equals_the_run},
      {"copies arrive", copies_arrive},
      {"refuses what breaks the interface", refuses_what_breaks_the_interface},
      {"recovers from out of memory", recovers_from_too_large_a_request},
      {"keeps its memory ceiling", keeps_its_memory_ceiling},
      {"leaks nothing", leaks_nothing},
      {"events complete", events_complete},
      {"profiles each node", profiles_each_node},
      {"collectives", check_collectives}};
  for (const auto& [name, check] : checks) {
    if (recorder.stopped()) return;
    Row row{.level = "behaviour", .subject = name};
    try {
      row.note = check(default_device(), recorder.options().seed);
      if (row.note.starts_with("-")) row.verdict = Verdict::kNotSupported, row.note.erase(0, 1);
      else if (!row.note.empty()) row.verdict = Verdict::kFail;
    } catch (const Error& error) {
      row.verdict = Verdict::kFail;
      row.note = error.what();
    }
    if (row.verdict == Verdict::kFail) row.ratio = INFINITY;
    recorder.add(std::move(row));
  }
}

}  // namespace transom::certify
