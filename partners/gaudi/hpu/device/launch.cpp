// SPDX-License-Identifier: Apache-2.0
#include "hpu/device/launch.h"

#include <algorithm>
#include <chrono>
#include <cstring>

using namespace transom::hpu;

namespace {

uint64_t now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

void refuse_wide(const transom_buffer& buffer, size_t input) {
  if (!buffer.too_wide) return;
  const auto& [place, value] = *buffer.too_wide;
  fail(TRANSOM_UNSUPPORTED,
       "input {}: element {} is {}, which 32 bits cannot carry; the device computes int64 as int32 unless "
       "PT_ENABLE_INT64_SUPPORT=1",
       input, place, value);
}

}  // namespace

std::shared_ptr<const transom_executable::Prepared> transom_executable::prepare(const transom_launch& launch) {
  if (launch.inputs_count != plan_.inputs.size() || launch.outputs_count != plan_.outputs.size())
    fail(TRANSOM_INVALID_ARGUMENT, "expected {} inputs and {} outputs, found {} and {}", plan_.inputs.size(),
         plan_.outputs.size(), launch.inputs_count, launch.outputs_count);
  auto prepared = std::make_shared<Prepared>(device);
  const auto place = [&](const transom_binding& binding, size_t value, const char* what, size_t index) {
    const size_t bytes = plan_.values[value].bytes();
    if (!binding.buffer) fail(TRANSOM_INVALID_ARGUMENT, "{} {}: expected a buffer, found none", what, index);
    if (binding.offset > binding.buffer->bytes || bytes > binding.buffer->bytes - binding.offset)
      fail(TRANSOM_INVALID_ARGUMENT, "{} {}: expected {} bytes at offset {}, found a buffer of {} bytes", what, index,
           bytes, binding.offset, binding.buffer->bytes);
    return Prepared::Place{binding.buffer, binding.buffer->block.get(), binding.offset};
  };
  for (size_t i = 0; i < plan_.inputs.size(); ++i)
    prepared->inputs.push_back(place(launch.inputs[i], plan_.inputs[i], "input", i));
  for (size_t o = 0; o < plan_.outputs.size(); ++o)
    prepared->outputs.push_back(place(launch.outputs[o], plan_.outputs[o], "output", o));

  Aliases aliases(plan_.outputs.size(), kOwn);
  for (size_t o = 0; o < plan_.outputs.size(); ++o) {
    const Prepared::Place& output = prepared->outputs[o];
    const size_t bytes = plan_.values[plan_.outputs[o]].bytes();
    for (size_t i = 0; bytes && i < plan_.inputs.size(); ++i) {
      const Prepared::Place& input = prepared->inputs[i];
      const size_t input_bytes = plan_.values[plan_.inputs[i]].bytes();
      if (input.block != output.block || output.offset >= input.offset + input_bytes ||
          input.offset >= output.offset + bytes)
        continue;
      const bool whole =
          input.offset == output.offset && plan_.values[plan_.inputs[i]] == plan_.values[plan_.outputs[o]];
      aliases[o] = aliases[o] == kOwn && whole ? static_cast<int>(i) : kApart;
    }
  }
  const Variant& variant = variant_for(aliases);
  prepared->variant = &variant;

  const std::lock_guard lock(device->mutex);
  for (size_t o = 0; o < plan_.outputs.size(); ++o)
    if (variant.aliases[o] == kApart)
      prepared->apart[o] = device->memory->allocate(plan_.values[plan_.outputs[o]].bytes());
  for (size_t s = 0; s < plan_.segments.size(); ++s) {
    auto& infos = prepared->infos.emplace_back();
    auto& reads = prepared->reads.emplace_back();
    auto& writes = prepared->writes.emplace_back();
    if (plan_.segments[s].on_host) continue;
    infos = variant.recipes[s]->launch_infos();
    const DeviceSegment& segment = device_segments_[s];
    for (size_t b = 0; b < segment.bound.size(); ++b) {
      const Bound& bound = segment.bound[b];
      Block* block = nullptr;
      size_t offset = 0;
      bool written = false;
      if (bound.kind == Bound::kInput) {
        block = prepared->inputs[bound.index].block;
        offset = prepared->inputs[bound.index].offset;
      } else if (bound.kind == Bound::kOutput) {
        const auto apart = prepared->apart.find(bound.index);
        block = apart != prepared->apart.end() ? apart->second.get() : prepared->outputs[bound.index].block;
        offset = apart != prepared->apart.end() ? 0 : prepared->outputs[bound.index].offset;
        written = true;
      } else {
        auto& between = prepared->between[bound.value];
        if (!between) between = device->memory->allocate(plan_.values[bound.value].bytes());
        block = between.get();
        const Segment& planned = plan_.segments[s];
        written = std::find(planned.outputs.begin(), planned.outputs.end(), bound.value) != planned.outputs.end();
      }
      infos[b].pTensorAddress = block->address + offset;
      (written ? writes : reads).push_back(block);
    }
  }
  return prepared;
}

void transom_executable::launch(const Prepared& prepared, size_t s, transom_stream& stream) const {
  const Recipe& recipe = *prepared.variant->recipes[s];
  const SynapseLibrary& library = device->library();
  const auto [profile, user] = device->profile();
  const std::lock_guard lock(device->mutex);
  const uint64_t begin = profile ? (device->lanes->wait_for_all(), now()) : 0;
  std::vector<Block*> writes = prepared.writes[s];
  uint64_t workspace = 0;
  if (recipe.workspace_bytes()) {
    Block& block = device->workspace(recipe.workspace_bytes());
    workspace = block.address;
    writes.push_back(&block);
  }
  const uint64_t ticket = device->lanes->submit(Lane::kCompute, prepared.reads[s], writes, [&](synStreamHandle queue) {
    library.expect(library.synLaunch(queue, prepared.infos[s].data(), static_cast<uint32_t>(prepared.infos[s].size()),
                                     workspace, recipe.handle(), 0),
                   device_segments_[s].name.c_str());
  });
  stream.add(Lane::kCompute, ticket);
  if (profile) {
    device->lanes->wait_for_all();
    profile(user, device_segments_[s].first_source, device_segments_[s].name.c_str(), begin, now());
  }
}

void transom_executable::run_on_host(const Prepared& prepared, const Segment& segment, transom_stream& stream,
                                     std::map<size_t, HostValue>& host) const {
  // Between recipes int64 lies as int32.
  const auto is_narrowed = [&](const Type& type) { return !device->options().int64 && type.dtype == TRANSOM_INT64; };
  std::map<size_t, HostValue> fetched;
  {
    const std::lock_guard lock(device->mutex);
    Tickets tickets{};
    for (const size_t value : segment.inputs) {
      if (host.contains(value)) continue;
      const auto input = input_of_.find(value);
      Type type = plan_.values[value];
      if (input == input_of_.end() && is_narrowed(type)) type.dtype = TRANSOM_INT32;
      HostValue& to = fetched.emplace(value, HostValue(type)).first->second;
      if (to.bytes.empty()) continue;
      Block& from = input != input_of_.end() ? *prepared.inputs[input->second].block : *prepared.between.at(value);
      const size_t offset = input != input_of_.end() ? prepared.inputs[input->second].offset : 0;
      tickets[static_cast<size_t>(Lane::kOut)] =
          device->copy_out(from, offset, to.bytes.data(), to.bytes.size(), &fetched);
    }
    device->wait(tickets, &fetched);
  }
  for (auto& [value, fetched_value] : fetched) {
    const bool whole = fetched_value.type == plan_.values[value];
    host.emplace(value, whole ? std::move(fetched_value) : widened(fetched_value));
  }
  for (const size_t i : segment.steps) {
    const Step& step = plan_.steps[i];
    std::vector<const HostValue*> inputs;
    for (const size_t value : step.inputs) inputs.push_back(&host.at(value));
    std::vector<HostValue> outputs;
    try {
      outputs = evaluate(step.node, inputs);
    } catch (const Failure& failure) {
      fail(failure.status(), "{}, on the host: {}", step.node.place(), failure.what());
    }
    for (size_t o = 0; o < outputs.size(); ++o) host.insert_or_assign(step.outputs[o], std::move(outputs[o]));
  }
  const auto send = [&](const HostValue& value, Block& to, size_t offset) {
    const std::lock_guard lock(device->mutex);
    stream.add(Lane::kIn, device->copy_in(value.bytes.data(), to, offset, value.bytes.size()));
  };
  for (const size_t number : segment.outputs) {
    const HostValue& value = host.at(number);
    if (value.bytes.empty()) continue;
    if (const auto output = output_of_.find(number); output != output_of_.end()) {
      const auto apart = prepared.apart.find(output->second);
      const Prepared::Place& place = prepared.outputs[output->second];
      if (apart != prepared.apart.end()) send(value, *apart->second, 0);
      else send(value, *place.block, place.offset);
      if (value.type.dtype == TRANSOM_INT64)
        place.buffer->too_wide = first_too_wide(value.bytes.data(), value.bytes.size() / sizeof(int64_t));
    }
    if (const auto between = prepared.between.find(number); between != prepared.between.end())
      send(is_narrowed(value.type) ? narrowed(value) : value, *between->second, 0);
  }
}

void transom_executable::run(const Prepared& prepared, transom_stream& stream) const {
  // int64 that a recipe reads from memory of the host's making.
  if (!device->options().int64)
    for (size_t s = 0; s < plan_.segments.size(); ++s)
      for (const Bound& bound : device_segments_[s].bound)
        if (bound.kind == Bound::kInput && plan_.values[bound.value].dtype == TRANSOM_INT64)
          refuse_wide(*prepared.inputs[bound.index].buffer, bound.index);
  for (const Prepared::Place& place : prepared.outputs) place.buffer->too_wide.reset();  // what a recipe writes fits
  std::map<size_t, HostValue> host;
  for (size_t s = 0; s < plan_.segments.size(); ++s) {
    if (plan_.segments[s].on_host) ++device->host_segments, run_on_host(prepared, plan_.segments[s], stream, host);
    else launch(prepared, s, stream);
  }
  const std::lock_guard lock(device->mutex);
  for (const auto& [output, block] : prepared.apart) {
    const Prepared::Place& place = prepared.outputs[output];
    stream.add(Lane::kCompute,
               device->copy_across(*block, 0, *place.block, place.offset, plan_.values[plan_.outputs[output]].bytes()));
  }
}
