// SPDX-License-Identifier: Apache-2.0
#include "device/communicator.h"

#include <algorithm>

#include "base/error.h"

namespace transom {
namespace {

void expect_collectives(const Device& device) {
  if (!device.table().communicator_create)
    fail(ErrorKind::kDevice, "{}: this device has no collectives, so it cannot be one of several", device.name());
  if (!device.table().event_create)
    fail(ErrorKind::kDevice, "{}: expected events beside collectives, found none", device.name());
}

size_t count_of(const Buffer& buffer, DType dtype) { return buffer.bytes() / size_of(dtype); }

}  // namespace

CommunicatorId make_communicator_id(const Device& device, const CommunicatorOptions& options) {
  expect_collectives(device);
  CommunicatorId id{};
  auto place = id.begin();
  for (const std::string& text :
       {options.transport, options.address, options.timeout > 0 ? std::to_string(options.timeout) : ""}) {
    if (text.size() + 1 > static_cast<size_t>(id.end() - place))
      fail(ErrorKind::kUsage, "ddp_backend or MASTER_ADDR: expected a name, found {}", quoted(text));
    place = std::copy(text.begin(), text.end(), place) + 1;
  }
  transom_error error{};
  device.expect_ok(device.table().communicator_id(id.data(), &error), error);
  return id;
}

Communicator::Communicator(Device& device, const CommunicatorId& id, uint32_t rank, uint32_t ranks)
    : device_(device), rank_(rank), ranks_(ranks) {
  expect_collectives(device);
  const transom_plugin& table = device.table();
  transom_error error{};
  device.expect_ok(table.communicator_create(device.handle(), id.data(), rank, ranks, &handle_, &error), error);
  try {
    device.expect_ok(table.stream_create(device.handle(), &stream_, &error), error);
    device.expect_ok(table.event_create(device.handle(), &event_, &error), error);
  } catch (...) {
    if (stream_) table.stream_destroy(stream_);
    table.communicator_destroy(handle_);
    throw;
  }
}

Communicator::~Communicator() {
  const transom_plugin& table = device_.table();
  table.event_destroy(event_);
  table.stream_destroy(stream_);
  table.communicator_destroy(handle_);
}

void Communicator::follow_device() {
  const auto turn = device_.take_turn();
  transom_error error{};
  device_.expect_ok(device_.table().event_record(event_, device_.stream(), &error), error);
  device_.expect_ok(device_.table().event_wait(event_, stream_, &error), error);
}

void Communicator::start_all_reduce(const Buffer& buffer, DType dtype) {
  follow_device();
  transom_error error{};
  device_.expect_ok(
      device_.table().all_reduce(handle_, stream_, {buffer.handle(), 0}, {buffer.handle(), 0}, count_of(buffer, dtype),
                                 static_cast<int32_t>(dtype), TRANSOM_SUM, &error),
      error);
}

void Communicator::start_broadcast(const Buffer& buffer, DType dtype) {
  follow_device();
  transom_error error{};
  device_.expect_ok(device_.table().broadcast(handle_, stream_, {buffer.handle(), 0}, count_of(buffer, dtype),
                                              static_cast<int32_t>(dtype), 0, &error),
                    error);
}

void Communicator::wait() {
  const auto turn = device_.take_turn();
  transom_error error{};
  device_.expect_ok(device_.table().event_record(event_, stream_, &error), error);
  device_.expect_ok(device_.table().event_wait(event_, device_.stream(), &error), error);
}

void Communicator::abort() {
  if (device_.table().communicator_abort) device_.table().communicator_abort(handle_);
}

}  // namespace transom
