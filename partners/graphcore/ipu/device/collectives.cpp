// SPDX-License-Identifier: Apache-2.0
#include "ipu/device/collectives.h"

#include <algorithm>
#include <cstring>
#include <gcl/Collectives.hpp>
#include <poputil/TileMapping.hpp>

#include "ipu/device/clocks.h"
#include "ipu/device/executable.h"
#include "ipu/lowering/lowering.h"
#include "transom/plugin/error.h"
#include "transom/plugin/types.h"

namespace {

using transom::backend::fail;
using transom::ipu::CollectiveKind;

gcl::CollectiveOperator operator_of(transom_reduction reduction) {
  return reduction == TRANSOM_SUM   ? gcl::CollectiveOperator::ADD
         : reduction == TRANSOM_MAX ? gcl::CollectiveOperator::MAX
                                    : gcl::CollectiveOperator::MIN;
}

}  // namespace

transom_communicator::transom_communicator(transom_device* device, const unsigned char id[256], uint32_t rank,
                                           uint32_t ranks)
    : device(device), rank(rank), ranks(ranks), group_(id, rank, ranks) {}

poplar::Engine& transom_communicator::program(const Call& call) {
  for (const auto& [known, engine] : programs_)
    if (known == call) return *engine;
  poplar::Graph graph(device->machine.getTarget(), poplar::replication_factor(ranks));
  poplar::Tensor data = graph.addVariable(call.type, {call.count}, "data");
  poputil::mapTensorLinearly(graph, data);
  poplar::program::Sequence program;
  program.add(poplar::program::Copy(graph.addHostToDeviceFIFO("in", call.type, call.count), data));
  poplar::Tensor made = data;
  if (call.kind == CollectiveKind::kReduce)
    gcl::allReduceInPlaceCrossReplica(graph, data, operator_of(call.reduction), program);
  else if (call.kind == CollectiveKind::kGather) made = gcl::allGatherCrossReplica(graph, data, program);
  else made = gcl::reduceScatterCrossReplica(graph, data, operator_of(call.reduction), program);
  program.add(poplar::program::Copy(made, graph.addDeviceToHostFIFO("out", call.type, made.numElements())));
  programs_.emplace_back(
      call, std::make_unique<poplar::Engine>(graph, std::vector<poplar::program::Program>{std::move(program)}));
  poplar::Engine& engine = *programs_.back().second;
  group_.join(engine);
  return engine;
}

void transom_communicator::run(const Call& call, const void* in, void* out) {
  if (lost_) fail(TRANSOM_DEVICE_LOST, "another replica was lost before");
  const std::lock_guard lock(device->running);
  try {
    poplar::Engine& engine = program(call);
    transom_executable::unload(*device);
    engine.load(device->machine);
    engine.connectStream("in", const_cast<void*>(in));
    engine.connectStream("out", out);
    engine.run(0);
    transom::ipu::unload(engine);
    transom::ipu::count_cycles(*device, engine);
    ++device->collectives;
  } catch (const poplar::graph_memory_allocation_error& error) {
    fail(TRANSOM_OUT_OF_MEMORY, "out of device memory: {}", error.what());
  } catch (const poplar::unrecoverable_runtime_error& error) {
    lost_ = true;
    fail(TRANSOM_DEVICE_LOST, "{}", error.what());
  } catch (const poplar::poplar_error& error) {
    fail(TRANSOM_INTERNAL, "poplar: {}", error.what());
  }
}

namespace transom::ipu {
namespace {

// What one program takes and gives on a replica, in bytes; more goes in pieces.
constexpr size_t kPieceBytes = size_t{16} << 20;

// Elements that are moved and not summed are words, of any type.
struct Words {
  poplar::Type type;
  size_t count, bytes;  // bytes of one
};
Words words_of(size_t bytes) {
  if (bytes % 4 == 0) return {poplar::UNSIGNED_INT, bytes / 4, 4};
  if (bytes % 2 == 0) return {poplar::UNSIGNED_SHORT, bytes / 2, 2};
  return {poplar::UNSIGNED_CHAR, bytes, 1};
}

struct Summed {
  poplar::Type type;
  size_t bytes;  // of one
};
Summed summed(int32_t dtype, int32_t reduction) {
  if (reduction != TRANSOM_SUM && reduction != TRANSOM_MAX && reduction != TRANSOM_MIN)
    fail(TRANSOM_INVALID_ARGUMENT, "expected a reduction of the interface, found number {}", reduction);
  switch (dtype) {
    case TRANSOM_FLOAT32:
    case TRANSOM_FLOAT16:
    case TRANSOM_INT32:
    case TRANSOM_UINT32:
    case TRANSOM_INT64:
      return {device_type(static_cast<transom_dtype>(dtype)), plugin::size_of(dtype)};
    default:
      fail(
          TRANSOM_UNSUPPORTED, "replicas reduce f32, f16, i32, u32 and i64, found {}",
          plugin::size_of(dtype) ? backend::dtype_name(static_cast<transom_dtype>(dtype)) : "no type of the interface");
  }
}

size_t bytes_of(size_t count, int32_t dtype) {
  const size_t size = plugin::size_of(dtype);
  if (size == 0) fail(TRANSOM_INVALID_ARGUMENT, "expected an element type, found number {}", dtype);
  if (count > SIZE_MAX / size / 4096) fail(TRANSOM_INVALID_ARGUMENT, "{} elements are more than memory holds", count);
  return count * size;
}

// The work of a stream, now or at each replay; what it writes is new contents.
template <typename Work>
void issue(transom_stream* stream, transom_buffer* written, Work&& work) {
  stream->issue([written, work = std::forward<Work>(work)] {
    if (written) written->renew();
    work();
    if (written) written->renew();
  });
}

// Parts of all ranks come behind each other, a piece of each at a time.
void gather(transom_communicator& group, const std::byte* from, size_t bytes, std::byte* to) {
  const Words words = words_of(bytes);
  const size_t piece = std::max<size_t>(1, kPieceBytes / words.bytes / group.ranks);
  std::vector<std::byte> in, all;
  for (size_t done = 0; done < words.count; done += piece) {
    const size_t count = std::min(piece, words.count - done), length = count * words.bytes;
    in.assign(from + done * words.bytes, from + done * words.bytes + length);  // `from` may lie in `to`
    all.resize(length * group.ranks);
    group.run({CollectiveKind::kGather, words.type, TRANSOM_SUM, count}, in.data(), all.data());
    for (size_t rank = 0; rank < group.ranks; ++rank)
      std::memcpy(to + rank * bytes + done * words.bytes, all.data() + rank * length, length);
  }
}

struct Collectives {
  static void communicator_id(unsigned char id[256]) { make_communicator_id(id); }

  static void communicator_create(transom_device* device, const unsigned char id[256], uint32_t rank, uint32_t ranks,
                                  transom_communicator** communicator) {
    if (rank >= ranks) fail(TRANSOM_INVALID_ARGUMENT, "expected a rank below {}, found {}", ranks, rank);
    *communicator = new transom_communicator(device, id, rank, ranks);
  }
  static void communicator_destroy(transom_communicator* communicator) { delete communicator; }
  static void communicator_abort(transom_communicator* communicator) { communicator->abort(); }

  static void all_reduce(transom_communicator* group, transom_stream* stream, transom_binding from, transom_binding to,
                         size_t count, int32_t dtype, int32_t reduction) {
    const Summed element = summed(dtype, reduction);
    const size_t bytes = bytes_of(count, dtype);
    const std::byte* source = transom_buffer::at(from, bytes);
    std::byte* target = transom_buffer::at(to, bytes);
    if (count == 0) return;
    issue(stream, to.buffer, [=] {
      const size_t piece = kPieceBytes / element.bytes;
      for (size_t done = 0; done < count; done += piece)
        group->run({CollectiveKind::kReduce, element.type, static_cast<transom_reduction>(reduction),
                    std::min(piece, count - done)},
                   source + done * element.bytes, target + done * element.bytes);
    });
  }

  static void all_gather(transom_communicator* group, transom_stream* stream, transom_binding from, transom_binding to,
                         size_t count, int32_t dtype) {
    const size_t bytes = bytes_of(count, dtype);
    const std::byte* source = transom_buffer::at(from, bytes);
    std::byte* target = transom_buffer::at(to, bytes * group->ranks);
    if (count == 0) return;
    // What is ours may lie in `to`, where others' parts of the first piece do not.
    issue(stream, to.buffer, [=] { gather(*group, source, bytes, target); });
  }

  static void reduce_scatter(transom_communicator* group, transom_stream* stream, transom_binding from,
                             transom_binding to, size_t count, int32_t dtype, int32_t reduction) {
    const Summed element = summed(dtype, reduction);
    const size_t bytes = bytes_of(count, dtype);
    const std::byte* source = transom_buffer::at(from, bytes * group->ranks);
    std::byte* target = transom_buffer::at(to, bytes);
    if (count == 0) return;
    issue(stream, to.buffer, [=] {
      const size_t piece = std::max<size_t>(1, kPieceBytes / element.bytes / group->ranks);
      std::vector<std::byte> in, out(bytes);  // `to` may be our part of `from`
      for (size_t done = 0; done < count; done += piece) {
        const size_t now = std::min(piece, count - done), length = now * element.bytes;
        in.resize(length * group->ranks);
        for (size_t rank = 0; rank < group->ranks; ++rank)
          std::memcpy(in.data() + rank * length, source + rank * bytes + done * element.bytes, length);
        group->run({CollectiveKind::kReduceScatter, element.type, static_cast<transom_reduction>(reduction),
                    now * group->ranks},
                   in.data(), out.data() + done * element.bytes);
      }
      std::memcpy(target, out.data(), bytes);
    });
  }

  static void broadcast(transom_communicator* group, transom_stream* stream, transom_binding buffer, size_t count,
                        int32_t dtype, uint32_t root) {
    if (root >= group->ranks) fail(TRANSOM_INVALID_ARGUMENT, "expected a root below {}, found {}", group->ranks, root);
    const size_t bytes = bytes_of(count, dtype);
    std::byte* data = transom_buffer::at(buffer, bytes);
    if (count == 0) return;
    issue(stream, buffer.buffer, [=] {
      std::vector<std::byte> all(bytes * group->ranks);
      gather(*group, data, bytes, all.data());
      std::memcpy(data, all.data() + root * bytes, bytes);
    });
  }
};

}  // namespace

void add_collectives(transom_plugin& table) { plugin::fill_table<Collectives>(table); }

}  // namespace transom::ipu
