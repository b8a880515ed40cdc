// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/host_program.h"

#include <numeric>

#include "base/error.h"
#include "graph/passes/place_on_host.h"
#include "runtime/programs/node_support.h"

namespace transom {
namespace {

std::shared_ptr<Device> open_host(const Device& device) {
  try {
    return Device::open("reference");
  } catch (const Error& error) {
    fail(ErrorKind::kDevice, "{}: what it does not support runs on the reference device, which cannot be opened: {}",
         device.name(), error.what());
  }
}

// The contents of a buffer as one of the host's device: in place where they are in the host's memory.
std::shared_ptr<Buffer> on_host(const std::shared_ptr<Buffer>& buffer, Device& host) {
  if (const std::byte* data = buffer->host_pointer()) return host.import({data, buffer->bytes()}, buffer);
  const auto copy = std::make_shared<std::vector<std::byte>>(buffer->bytes());
  buffer->read(*copy);
  return host.import(*copy, copy);
}

}  // namespace

HostProgram::HostProgram(std::shared_ptr<Device> device, const Graph& graph)
    : device_(std::move(device)), host_(open_host(*device_)), count_(graph.nodes.size()) {
  const LoweredGraph lowered = lower(without_host_regions(graph), model_of(host_, false), {});
  program_ = std::make_unique<DeviceProgram>(host_, lowered.graph, lowered.plan, lowered.frozen);
  outputs_ = lowered.outputs;
}

std::vector<ProgramPiece> HostProgram::pieces() const {
  std::vector<size_t> places(count_);
  std::iota(places.begin(), places.end(), size_t{0});
  return {{.nodes = program_->nodes(), .places = std::move(places), .on_host = true}};
}

Buffers HostProgram::run(const Buffers& inputs) const {
  device_->synchronize();
  Buffers taken;
  for (const std::shared_ptr<Buffer>& input : inputs) taken.push_back(on_host(input, *host_));
  const Buffers made = program_->run(taken);
  Buffers results;
  for (const LoweredGraph::Source& source : outputs_) {
    const Buffer& from = source.is_input ? *taken[source.index] : *made[source.index];
    std::vector<std::byte> bytes(from.bytes());
    from.read(bytes);
    results.push_back(device_->upload(bytes));
  }
  return results;
}

}  // namespace transom
