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
                                     std::map<size_t, HostArray>& host) const {
  const bool narrow = !device->options().int64;
  // As a value lies between segments: int64 as int32.
  const auto between_type = [&](const Type& type) {
    return narrow && type.dtype == TRANSOM_INT64 ? Type{TRANSOM_INT32, type.shape} : type;
  };
  std::map<size_t, std::vector<std::byte>> fetched;
  {
    const std::lock_guard lock(device->mutex);
    Tickets tickets{};
    for (const size_t value : segment.inputs) {
      if (host.contains(value) || plan_.values[value].count() == 0) continue;
      const auto input = input_of_.find(value);
      const Type type = input != input_of_.end() ? plan_.values[value] : between_type(plan_.values[value]);
      std::vector<std::byte>& bytes = fetched[value];
      bytes.resize(type.bytes());
      Block& from = input != input_of_.end() ? *prepared.inputs[input->second].block : *prepared.between.at(value);
      const size_t offset = input != input_of_.end() ? prepared.inputs[input->second].offset : 0;
      tickets[static_cast<size_t>(Lane::kOut)] = device->copy_out(from, offset, bytes.data(), bytes.size(), &fetched);
    }
    device->wait(tickets, &fetched);
  }
  for (const size_t value : segment.inputs) {
    if (host.contains(value)) continue;
    const Type& type = plan_.values[value];
    const auto bytes = fetched.find(value);
    if (bytes == fetched.end()) {
      host.emplace(value, HostArray(type));
      continue;
    }
    HostArray array = decode(bytes->second.data(), input_of_.contains(value) ? type : between_type(type));
    array.type = type;
    host.emplace(value, std::move(array));
  }
  for (const size_t i : segment.steps) {
    const Step& step = plan_.steps[i];
    std::vector<const HostArray*> inputs;
    for (const size_t value : step.inputs) inputs.push_back(&host.at(value));
    std::vector<HostArray> outputs = interpret(step.node, inputs);
    for (size_t o = 0; o < outputs.size(); ++o) host.insert_or_assign(step.outputs[o], std::move(outputs[o]));
  }
  const auto send = [&](const HostArray& array, const Type& type, Block& to, size_t offset) {
    std::vector<std::byte> bytes(type.bytes());
    if (type == array.type) {
      encode(array, bytes.data());
    } else {
      HostArray small(type);
      for (size_t i = 0; i < array.integer.size(); ++i) {
        if (array.integer[i] < INT32_MIN || array.integer[i] > INT32_MAX)
          fail(TRANSOM_UNSUPPORTED, "{} does not fit the 32 bits in which the device computes int64", array.integer[i]);
        small.integer[i] = array.integer[i];
      }
      encode(small, bytes.data());
    }
    const std::lock_guard lock(device->mutex);
    stream.add(Lane::kIn, device->copy_in(bytes.data(), to, offset, bytes.size()));
  };
  for (const size_t value : segment.outputs) {
    const HostArray& array = host.at(value);
    if (array.type.count() == 0) continue;
    if (const auto output = output_of_.find(value); output != output_of_.end()) {
      const auto apart = prepared.apart.find(output->second);
      const Prepared::Place& place = prepared.outputs[output->second];
      if (apart != prepared.apart.end()) send(array, array.type, *apart->second, 0);
      else send(array, array.type, *place.block, place.offset);
      if (array.type.dtype == TRANSOM_INT64)
        place.buffer->too_wide = first_too_wide(array.integer.data(), array.integer.size());
    }
    if (const auto between = prepared.between.find(value); between != prepared.between.end())
      send(array, between_type(array.type), *between->second, 0);
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
  std::map<size_t, HostArray> host;
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
