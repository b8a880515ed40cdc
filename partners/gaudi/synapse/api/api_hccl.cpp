// SPDX-License-Identifier: Apache-2.0
// The functions of the interface for collectives.
#include <algorithm>
#include <cstring>

#include "collectives/communicator.h"
#include "configuration.h"
#include "hccl_interface.h"
#include "process.h"

using namespace synapse_emulator;

namespace {

constexpr uint64_t kIdMagic = 0x484343454D554C31;
struct IdText {
  uint64_t magic;
  Meeting meeting;
};

// One call inside of a group, or alone.
struct Work {
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<Stream> stream;
  const char* name = "";
  std::vector<Range> ranges;
  std::vector<std::shared_ptr<Pages>> keep;
  std::vector<Message> sends, receives;           // of send and recv
  std::function<void(Communicator&)> collective;  // of all others
  double seconds = 0;
};

thread_local int t_depth = 0;
thread_local std::vector<Work> t_group;

uint64_t size_of_type(hcclDataType_t type) { return type == hcclBfloat16 ? 2 : 4; }

std::shared_ptr<Communicator> communicator(hcclComm_t handle) {
  std::shared_ptr<Communicator> found = process().communicators.get(handle, hcclInvalidArgument);
  if (process().lost) throw Failure{hcclSynapseError, "the device was reset"};
  std::string text;
  if (const int error = found->error(&text)) throw Failure{error, text};
  return found;
}

Work work_of(const char* name, hcclComm_t comm, void* stream) {
  Work work;
  work.name = name;
  work.communicator = communicator(comm);
  work.stream = process().streams.get(stream, hcclInvalidArgument);
  return work;
}

void check_type(hcclDataType_t type) {
  rule(type == hcclFloat32 || type == hcclBfloat16, hcclInvalidArgument, "hccl-type", "type ", type,
       "; f32 and bf16 are carried, others go as words of them");
}
void check_operation(hcclRedOp_t operation) {
  rule(operation >= hcclSum && operation <= hcclAvg, hcclInvalidArgument, "hccl-operation", "operation ", operation);
}
void check_peer(const Work& work, int peer, const char* what) {
  rule(peer >= 0 && peer < work.communicator->size(), hcclInvalidArgument, "hccl-rank", what, " ", peer, " of ",
       work.communicator->size());
}

char* use(Work& work, const void* buffer, uint64_t bytes, bool written) {
  if (bytes == 0) return nullptr;
  const auto address = reinterpret_cast<uint64_t>(buffer);
  const Place place = process().memory.place(address, bytes, hcclInvalidArgument, work.name);
  work.ranges.push_back({address, address + bytes, written});
  work.keep.push_back(place.pages);
  return place.data;
}

// Inside of a server all cards send to all at once; between servers each card exchanges its part of what its server has
// with the cards of its place there, over ports of its own: reduce-scatter inside, exchange, all-gather inside.
double wire_seconds(double inside, double between) {
  const Generation& generation = configuration().generation;
  return inside / generation.scale_up_bandwidth + between / generation.scale_out_bandwidth;
}

// Of reductions into parts and gathers of them, `passes` of the two, of so many bytes in all parts together.
double parts_seconds(const Communicator& group, double bytes, int passes) {
  const double cards = group.ranks_of_server(), servers = group.servers();
  return passes * wire_seconds((cards - 1) / cards * bytes, (servers - 1) / servers * bytes / cards);
}

// From one rank to all, or back: in parts over all cards of its server.
double root_seconds(const Communicator& group, double bytes) {
  return wire_seconds(group.ranks_of_server() > 1 ? bytes : 0,
                      group.servers() > 1 ? bytes / group.ranks_of_server() : 0);
}

double all_to_all_seconds(const Communicator& group, double bytes_for_each) {
  const int near = group.ranks_of_server() - 1;
  return wire_seconds(near * bytes_for_each, (group.size() - 1 - near) * bytes_for_each);
}

double message_seconds(const Communicator& group, int peer, double bytes) {
  return group.shares_server(peer) ? wire_seconds(bytes, 0) : wire_seconds(0, bytes);
}

int enqueue(Work work) {
  const std::lock_guard lock(work.communicator->order);
  const std::shared_ptr<Communicator> group = work.communicator;
  const std::shared_ptr<Stream> before = group->last_stream == work.stream ? nullptr : group->last_stream;
  const uint64_t before_number = group->last_number;
  const auto run = [group, before, before_number, collective = work.collective, sends = work.sends,
                    receives = work.receives] {
    if (before) before->wait(before_number);  // calls of one communicator run in their order
    if (collective) collective(*group);
    else group->point_to_point(sends, receives);
  };
  group->last_number = submit(work.stream, work.ranges, work.name, run, std::move(work.keep));
  group->last_stream = work.stream;
  process().clock.work(*work.stream, Engine::kNic, 0, work.seconds);
  process().clock.count("collectives");
  return hcclSuccess;
}

// Runs now, or at the end of the group.
int submit_work(Work work) {
  if (t_depth > 0) {
    t_group.push_back(std::move(work));
    return hcclSuccess;
  }
  for (const auto* list : {&work.sends, &work.receives})
    for (const Message& message : *list)
      rule(message.peer != work.communicator->rank(), hcclInvalidUsage, "hccl-self",
           "a message to oneself outside of a group never ends");
  return enqueue(std::move(work));
}

}  // namespace

hcclResult_t hcclGetVersion(int* version) {
  return Call("hcclGetVersion").anytime().run([&] {
    rule(version != nullptr, hcclInvalidArgument, "arguments", "no place for the version");
    *version = 2604;
    return hcclSuccess;
  });
}

const char* hcclGetErrorString(hcclResult_t result) { return result_name(result); }
const char* hcclGetLastErrorMessage(void) { return last_message(); }

hcclResult_t hcclGetUniqueId(hcclUniqueId* id) {
  return Call("hcclGetUniqueId").run([&] {
    rule(id != nullptr, hcclInvalidArgument, "arguments", "no place for the id");
    rule(process().acquired, hcclNoDeviceFound, "hccl-device", "no device is acquired");
    const IdText text = {kIdMagic, open_meeting()};
    std::memset(id, 0, sizeof *id);
    std::memcpy(id->internal, &text, sizeof text);
    id->length = sizeof text;
    return hcclSuccess;
  });
}

hcclResult_t hcclCommInitRank(hcclComm_t* comm, int ranks, hcclUniqueId id, int rank) {
  return Call("hcclCommInitRank", "ranks", ranks, "rank", rank).run([&] {
    rule(comm != nullptr, hcclInvalidArgument, "arguments", "no place for the communicator");
    rule(process().acquired, hcclNoDeviceFound, "hccl-device", "no device is acquired");
    rule(ranks > 0 && ranks <= 65536 && rank >= 0 && rank < ranks, hcclInvalidArgument, "hccl-rank", "rank ", rank,
         " of ", ranks);
    rule(ranks == 1 || process().by_module, hcclInvalidUsage, "acquire-module",
         "for collectives the device is acquired by its module id");
    IdText text;
    std::memcpy(&text, id.internal, sizeof text);
    if (id.length == 0) text.meeting = fixed_meeting(rank == 0);
    else
      rule(id.length == sizeof text && text.magic == kIdMagic, hcclInvalidArgument, "hccl-id",
           "no id of hcclGetUniqueId: its length ", id.length, " counts too");
    auto made = std::make_shared<Communicator>(text.meeting, rank, ranks);
    *comm = process().communicators.add<hcclComm_t>(made);
    return hcclSuccess;
  });
}

namespace {

int finish(Communicator& group) {
  if (group.last_stream) group.last_stream->wait(group.last_number);
  return hcclSuccess;
}

int destroy(hcclComm_t comm) {
  const std::shared_ptr<Communicator> group = process().communicators.take(comm, hcclInvalidArgument);
  finish(*group);
  group->broken(hcclInvalidUsage, "the communicator was destroyed");
  return hcclSuccess;
}

}  // namespace

hcclResult_t hcclCommFinalize(hcclComm_t comm) {
  return Call("hcclCommFinalize", "comm", comm).run([&] {
    return finish(*process().communicators.get(comm, hcclInvalidArgument));
  });
}
hcclResult_t hcclCommDestroy(hcclComm_t comm) {
  return Call("hcclCommDestroy", "comm", comm).run([&] { return destroy(comm); });
}
hcclResult_t hcclCommAbort(hcclComm_t comm) {
  return Call("hcclCommAbort", "comm", comm).run([&] {
    process().communicators.get(comm, hcclInvalidArgument)->broken(hcclInvalidUsage, "the communicator was aborted");
    return destroy(comm);
  });
}

hcclResult_t hcclCommGetAsyncError(hcclComm_t comm, hcclResult_t* error) {
  return Call("hcclCommGetAsyncError", "comm", comm).run([&] {
    rule(error != nullptr, hcclInvalidArgument, "arguments", "no place for the error");
    *error = process().communicators.get(comm, hcclInvalidArgument)->error();
    return hcclSuccess;
  });
}
const char* hcclCommGetAsyncErrorMessage(hcclComm_t comm) {
  thread_local std::string text;
  text.clear();
  Call("hcclCommGetAsyncErrorMessage", "comm", comm).run([&] {
    process().communicators.get(comm, hcclInvalidArgument)->error(&text);
    return hcclSuccess;
  });
  return text.c_str();
}

hcclResult_t hcclCommCount(hcclComm_t comm, int* count) {
  return Call("hcclCommCount", "comm", comm).run([&] {
    rule(count != nullptr, hcclInvalidArgument, "arguments", "no place for the count");
    *count = process().communicators.get(comm, hcclInvalidArgument)->size();
    return hcclSuccess;
  });
}
hcclResult_t hcclCommSynDevice(hcclComm_t comm, int* device) {
  return Call("hcclCommSynDevice", "comm", comm).run([&] {
    rule(device != nullptr, hcclInvalidArgument, "arguments", "no place for the device");
    process().communicators.get(comm, hcclInvalidArgument);
    *device = 0;
    return hcclSuccess;
  });
}
hcclResult_t hcclCommUserRank(hcclComm_t comm, int* rank) {
  return Call("hcclCommUserRank", "comm", comm).run([&] {
    rule(rank != nullptr, hcclInvalidArgument, "arguments", "no place for the rank");
    *rank = process().communicators.get(comm, hcclInvalidArgument)->rank();
    return hcclSuccess;
  });
}

hcclResult_t hcclAllReduce(const void* send, void* receive, size_t count, hcclDataType_t type, hcclRedOp_t operation,
                           hcclComm_t comm, void* stream) {
  return Call("hcclAllReduce", "send", send, "recv", receive, "count", count, "type", type, "op", operation, "stream",
              stream)
      .run([&] {
        Work work = work_of("hcclAllReduce", comm, stream);
        check_type(type);
        check_operation(operation);
        const uint64_t bytes = count * size_of_type(type);
        char* from = use(work, send, bytes, false);
        char* to = use(work, receive, bytes, true);
        work.seconds = parts_seconds(*work.communicator, static_cast<double>(bytes), 2);
        work.collective = [=](Communicator& group) { group.all_reduce(from, to, count, type, operation); };
        return submit_work(std::move(work));
      });
}

hcclResult_t hcclReduce(const void* send, void* receive, size_t count, hcclDataType_t type, hcclRedOp_t operation,
                        int root, hcclComm_t comm, void* stream) {
  return Call("hcclReduce", "send", send, "recv", receive, "count", count, "type", type, "op", operation, "root", root,
              "stream", stream)
      .run([&] {
        Work work = work_of("hcclReduce", comm, stream);
        check_type(type);
        check_operation(operation);
        check_peer(work, root, "root");
        const uint64_t bytes = count * size_of_type(type);
        char* from = use(work, send, bytes, false);
        char* to = work.communicator->rank() == root ? use(work, receive, bytes, true) : nullptr;
        work.seconds = root_seconds(*work.communicator, static_cast<double>(bytes));
        work.collective = [=](Communicator& group) { group.reduce(from, to, count, type, operation, root); };
        return submit_work(std::move(work));
      });
}

hcclResult_t hcclReduceScatter(const void* send, void* receive, size_t count, hcclDataType_t type,
                               hcclRedOp_t operation, hcclComm_t comm, void* stream) {
  return Call("hcclReduceScatter", "send", send, "recv", receive, "count", count, "type", type, "op", operation,
              "stream", stream)
      .run([&] {
        Work work = work_of("hcclReduceScatter", comm, stream);
        check_type(type);
        check_operation(operation);
        const auto n = static_cast<uint64_t>(work.communicator->size());
        const uint64_t bytes = count * size_of_type(type);
        char* from = use(work, send, bytes * n, false);
        char* to = use(work, receive, bytes, true);
        work.seconds = parts_seconds(*work.communicator, static_cast<double>(bytes * n), 1);
        work.collective = [=](Communicator& group) { group.reduce_scatter(from, to, count, type, operation); };
        return submit_work(std::move(work));
      });
}

hcclResult_t hcclAllGather(const void* send, void* receive, size_t count, hcclDataType_t type, hcclComm_t comm,
                           void* stream) {
  return Call("hcclAllGather", "send", send, "recv", receive, "count", count, "type", type, "stream", stream).run([&] {
    Work work = work_of("hcclAllGather", comm, stream);
    check_type(type);
    const auto n = static_cast<uint64_t>(work.communicator->size());
    const uint64_t bytes = count * size_of_type(type);
    char* from = use(work, send, bytes, false);
    char* to = use(work, receive, bytes * n, true);
    work.seconds = parts_seconds(*work.communicator, static_cast<double>(bytes * n), 1);
    work.collective = [=](Communicator& group) { group.all_gather(from, to, bytes); };
    return submit_work(std::move(work));
  });
}

hcclResult_t hcclBroadcast(const void* send, void* receive, size_t count, hcclDataType_t type, int root,
                           hcclComm_t comm, void* stream) {
  return Call("hcclBroadcast", "send", send, "recv", receive, "count", count, "type", type, "root", root, "stream",
              stream)
      .run([&] {
        Work work = work_of("hcclBroadcast", comm, stream);
        check_type(type);
        check_peer(work, root, "root");
        const uint64_t bytes = count * size_of_type(type);
        char* from = work.communicator->rank() == root ? use(work, send, bytes, false) : nullptr;
        char* to = use(work, receive, bytes, true);
        work.seconds = root_seconds(*work.communicator, static_cast<double>(bytes));
        work.collective = [=](Communicator& group) { group.broadcast(from, to, bytes, root); };
        return submit_work(std::move(work));
      });
}

// `count` counts what goes to all ranks together.
hcclResult_t hcclAlltoAll(const void* send, void* receive, size_t count, hcclDataType_t type, hcclComm_t comm,
                          void* stream) {
  return Call("hcclAlltoAll", "send", send, "recv", receive, "count", count, "type", type, "stream", stream).run([&] {
    Work work = work_of("hcclAlltoAll", comm, stream);
    check_type(type);
    const auto n = static_cast<uint64_t>(work.communicator->size());
    rule(count % n == 0, hcclInvalidArgument, "hccl-count", count, " elements for ", n, " ranks");
    const uint64_t bytes = count * size_of_type(type);
    char* from = use(work, send, bytes, false);
    char* to = use(work, receive, bytes, true);
    rule(from != to || bytes == 0, hcclInvalidArgument, "hccl-buffers", "the buffers of an all-to-all differ");
    work.seconds = all_to_all_seconds(*work.communicator, static_cast<double>(bytes / n));
    work.collective = [=](Communicator& group) { group.all_to_all(from, to, bytes / n); };
    return submit_work(std::move(work));
  });
}

hcclResult_t hcclBarrier(hcclComm_t comm, void* stream) {
  return Call("hcclBarrier", "stream", stream).run([&] {
    Work work = work_of("hcclBarrier", comm, stream);
    work.collective = [](Communicator& group) { group.barrier(); };
    return submit_work(std::move(work));
  });
}

hcclResult_t hcclSend(const void* send, size_t count, hcclDataType_t type, int peer, hcclComm_t comm, void* stream) {
  return Call("hcclSend", "send", send, "count", count, "type", type, "peer", peer, "stream", stream).run([&] {
    Work work = work_of("hcclSend", comm, stream);
    check_type(type);
    check_peer(work, peer, "peer");
    const uint64_t bytes = count * size_of_type(type);
    work.sends.push_back({peer, use(work, send, bytes, false), bytes});
    work.seconds = message_seconds(*work.communicator, peer, static_cast<double>(bytes));
    return submit_work(std::move(work));
  });
}

hcclResult_t hcclRecv(void* receive, size_t count, hcclDataType_t type, int peer, hcclComm_t comm, void* stream) {
  return Call("hcclRecv", "recv", receive, "count", count, "type", type, "peer", peer, "stream", stream).run([&] {
    Work work = work_of("hcclRecv", comm, stream);
    check_type(type);
    check_peer(work, peer, "peer");
    const uint64_t bytes = count * size_of_type(type);
    work.receives.push_back({peer, use(work, receive, bytes, true), bytes});
    work.seconds = message_seconds(*work.communicator, peer, static_cast<double>(bytes));
    return submit_work(std::move(work));
  });
}

hcclResult_t hcclGroupStart(void) {
  return Call("hcclGroupStart").run([&] {
    ++t_depth;
    return hcclSuccess;
  });
}

hcclResult_t hcclGroupEnd(void) {
  return Call("hcclGroupEnd").run([&] {
    rule(t_depth > 0, hcclInvalidUsage, "hccl-group", "no group is open");
    if (--t_depth > 0) return hcclSuccess;
    std::vector<Work> group;
    group.swap(t_group);
    std::vector<Work> joined;  // messages of one communicator and stream move at once
    for (Work& work : group) {
      const auto same = std::find_if(joined.begin(), joined.end(), [&](const Work& other) {
        return !work.collective && !other.collective && other.communicator == work.communicator &&
               other.stream == work.stream;
      });
      if (same == joined.end()) {
        joined.push_back(std::move(work));
        continue;
      }
      same->ranges.insert(same->ranges.end(), work.ranges.begin(), work.ranges.end());
      same->keep.insert(same->keep.end(), work.keep.begin(), work.keep.end());
      same->sends.insert(same->sends.end(), work.sends.begin(), work.sends.end());
      same->receives.insert(same->receives.end(), work.receives.begin(), work.receives.end());
      same->seconds += work.seconds;
    }
    for (Work& work : joined) enqueue(std::move(work));
    return hcclSuccess;
  });
}
