// SPDX-License-Identifier: Apache-2.0
// Collectives of a plugin: among all of its devices, each in a thread of its own, or of one with itself.
#include <algorithm>
#include <thread>

#include "base/error.h"
#include "runtime/device/device.h"
#include "tools/certify/certify.h"

namespace transom::certify {
namespace {

constexpr size_t kCount = 12;

// What one rank sees; throws what goes wrong.
void take_part(Device& device, const unsigned char* id, uint32_t rank, uint32_t ranks) {
  const transom_plugin& table = device.table();
  transom_error error{};
  const auto done = [&](transom_status status) { expect_ok(status, error, device.name()); };
  transom_communicator* group = nullptr;
  done(table.communicator_create(device.handle(), id, rank, ranks, &group, &error));
  const std::unique_ptr<transom_communicator, decltype(table.communicator_destroy)> owner(group,
                                                                                          table.communicator_destroy);
  // Rank r holds r + 1, r + 2, ...: sums, gathered parts and the root's values are known.
  const auto value_of = [](uint32_t r, size_t i) { return static_cast<float>(r + i + 1); };
  std::vector<float> mine(kCount * ranks);
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = value_of(rank, i);
  const auto from = device.upload(std::as_bytes(std::span(mine))), to = device.allocate(mine.size() * sizeof(float));
  const transom_binding source{from->handle(), 0}, target{to->handle(), 0};
  const auto expect = [&](const char* what, const std::shared_ptr<Buffer>& buffer, size_t count, auto expected) {
    std::vector<float> found(mine.size());
    buffer->read(std::as_writable_bytes(std::span(found)));
    for (size_t i = 0; i < count; ++i)
      if (found[i] != expected(i))
        fail("{} on rank {} of {}: element {}: expected {}, found {}", what, rank, ranks, i, expected(i), found[i]);
  };
  const auto sum_at = [&](size_t i) {
    float sum = 0;
    for (uint32_t r = 0; r < ranks; ++r) sum += value_of(r, i);
    return sum;
  };
  done(table.all_reduce(group, device.stream(), source, target, mine.size(), TRANSOM_FLOAT32, TRANSOM_SUM, &error));
  expect("all_reduce of sums", to, mine.size(), sum_at);
  done(table.all_reduce(group, device.stream(), source, target, mine.size(), TRANSOM_FLOAT32, TRANSOM_MAX, &error));
  expect("all_reduce of maxima", to, mine.size(), [&](size_t i) { return value_of(ranks - 1, i); });
  done(table.all_gather(group, device.stream(), source, target, kCount, TRANSOM_FLOAT32, &error));
  expect("all_gather", to, mine.size(),
         [&](size_t i) { return value_of(static_cast<uint32_t>(i / kCount), i % kCount); });
  done(table.reduce_scatter(group, device.stream(), source, target, kCount, TRANSOM_FLOAT32, TRANSOM_SUM, &error));
  expect("reduce_scatter", to, kCount, [&](size_t i) { return sum_at(rank * kCount + i); });
  if (table.all_to_all) {
    done(table.all_to_all(group, device.stream(), source, target, kCount, TRANSOM_FLOAT32, &error));
    expect("all_to_all", to, mine.size(),
           [&](size_t i) { return value_of(static_cast<uint32_t>(i / kCount), rank * kCount + i % kCount); });
  }
  if (table.send && ranks > 1) {
    // Two messages around a ring, which only move because all are issued at once.
    const uint32_t next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    const transom_binding second{from->handle(), kCount * sizeof(float)};
    done(table.message_group_begin(group, &error));
    done(table.send(group, device.stream(), source, kCount, TRANSOM_FLOAT32, next, &error));
    done(table.send(group, device.stream(), second, kCount, TRANSOM_FLOAT32, next, &error));
    done(table.receive(group, device.stream(), target, kCount, TRANSOM_FLOAT32, previous, &error));
    done(table.receive(group, device.stream(), {to->handle(), kCount * sizeof(float)}, kCount, TRANSOM_FLOAT32,
                       previous, &error));
    done(table.message_group_end(group, &error));
    expect("messages around a ring", to, 2 * kCount, [&](size_t i) { return value_of(previous, i); });
    if (rank == 0) done(table.send(group, device.stream(), second, kCount, TRANSOM_FLOAT32, 1, &error));
    if (rank == 1) {
      done(table.receive(group, device.stream(), target, kCount, TRANSOM_FLOAT32, 0, &error));
      expect("a message", to, kCount, [&](size_t i) { return value_of(0, kCount + i); });
    }
  }
  done(table.broadcast(group, device.stream(), source, kCount, TRANSOM_FLOAT32, ranks - 1, &error));
  expect("broadcast", from, kCount, [&](size_t i) { return value_of(ranks - 1, i); });
}

}  // namespace

std::string check_collectives(const std::shared_ptr<Device>& device, uint64_t) {
  const transom_plugin& table = device->table();
  if (!table.communicator_create) return "-no collectives";
  transom_error error{};
  uint32_t count = 0;
  expect_ok(table.device_count(&count, &error), error, device->name());
  constexpr uint32_t kMost = 8;
  const std::string plugin = device->name().substr(0, device->name().find(':'));
  // As many as one process can use: some vendors' libraries give it one card.
  std::vector<std::shared_ptr<Device>> devices;
  try {
    for (uint32_t i = 0; i < std::clamp<uint32_t>(count, 1, kMost); ++i)
      devices.push_back(count > 1 ? Device::open(plugin + ":" + std::to_string(i)) : device);
  } catch (const Error&) {
    devices.assign(1, device);
  }
  const auto ranks = static_cast<uint32_t>(devices.size());
  unsigned char id[256] = {};
  const transom_status known = table.communicator_id(id, &error);
  if (known == TRANSOM_UNAVAILABLE) return "-no collectives: " + text_of(error.text, sizeof error.text);
  expect_ok(known, error, device->name());
  if (ranks == 1) {
    take_part(*device, id, 0, 1);
    return "";
  }
  std::vector<std::string> messages(ranks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        take_part(*devices[rank], id, rank, ranks);
      } catch (const std::exception& exception) {
        messages[rank] = exception.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  const auto wrong = std::find_if(messages.begin(), messages.end(), [](const std::string& m) { return !m.empty(); });
  return wrong == messages.end() ? "" : *wrong;
}

}  // namespace transom::certify
