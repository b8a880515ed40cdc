// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL, which RCCL has under the same names, as far as a device backend without their header calls
// them. The ranks are devices of several processes, or of one, each with a thread of its own. Work of a stream is done
// when somebody waits for it, so a collective waits for the other ranks then. Sums are taken in the order of the ranks,
// in f32 for 16-bit types, and rounded once.
#include <cmath>
#include <cstring>

#include "device.h"
#include "ranks/group.h"

using namespace emulator;
using emulator_common::Group;
using emulator_common::GroupError;
using emulator_common::Message;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum Result { kNcclSystem = 2, kNcclInvalidArgument = 4, kNcclInvalidUsage = 5, kNcclRemote = 6 };
enum Type { kInt8, kUint8, kInt32, kUint32, kInt64, kUint64, kFloat16, kFloat32, kFloat64, kBfloat16, kTypes };
enum Operation { kSum, kProduct, kMax, kMin, kOperations };

constexpr uint64_t kBytes[kTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
constexpr uint64_t kMagic = 0x5452414E4E43434C;

double patience() {
  const char* text = std::getenv("TRANSOM_EMULATED_GPU_TIMEOUT");
  return text ? std::atof(text) : 120;
}

struct Communicator {
  std::unique_ptr<Group> group;
  Gpu* gpu = nullptr;
  std::atomic<int> error = 0;
};

struct UniqueId {
  char internal[128];
};
struct IdText {
  uint64_t magic;
  emulator_common::Meeting meeting;
};
static_assert(sizeof(IdText) <= sizeof(UniqueId));

std::mutex live_mutex;
std::set<Communicator*>& live() {
  static auto& all = *new std::set<Communicator*>;
  return all;
}
bool is_live(void* communicator) {
  const std::lock_guard lock(live_mutex);
  return live().contains(static_cast<Communicator*>(communicator));
}

thread_local std::string last_error;
int refused(int result, std::string why) {
  last_error = std::move(why);
  say(last_error);
  return result;
}

float from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024.0f + static_cast<float>(fraction), exponent - 25)
                          : std::ldexp(static_cast<float>(fraction), -24));
}
uint16_t to_half(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7E00;
  const float size = std::fabs(value);
  if (size >= 65520.0f) return sign | 0x7C00;
  if (size < 0x1p-14f) return static_cast<uint16_t>(sign | static_cast<int>(std::nearbyint(std::ldexp(size, 24))));
  int exponent = 0;
  const float fraction = std::frexp(size, &exponent);
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(fraction, 11)));
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + (steps - 1024)));
}

template <typename T, typename Wide, typename Load, typename Store>
emulator_common::Combine combined(int operation, Load load, Store store) {
  return [=](const std::vector<const char*>& parts, char* out, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      Wide total{};
      for (size_t rank = 0; rank < parts.size(); ++rank) {
        T element;
        std::memcpy(&element, parts[rank] + i * sizeof element, sizeof element);
        const Wide next = load(element);
        if (rank == 0) total = next;
        else if (operation == kSum) total = static_cast<Wide>(total + next);
        else if (operation == kProduct) total = static_cast<Wide>(total * next);
        else if (operation == kMax) total = next > total || next != next ? next : total;
        else total = next < total || next != next ? next : total;
      }
      const T result = store(total);
      std::memcpy(out + i * sizeof result, &result, sizeof result);
    }
  };
}
template <typename T>
emulator_common::Combine combined(int operation) {
  const auto same = [](T x) { return x; };
  return combined<T, T>(operation, same, same);
}

emulator_common::Combine combination(int type, int operation) {
  switch (type) {
    case kInt8:
      return combined<int8_t>(operation);
    case kUint8:
      return combined<uint8_t>(operation);
    case kInt32:
      return combined<int32_t>(operation);
    case kUint32:
      return combined<uint32_t>(operation);
    case kInt64:
      return combined<int64_t>(operation);
    case kUint64:
      return combined<uint64_t>(operation);
    case kFloat32:
      return combined<float>(operation);
    case kFloat64:
      return combined<double>(operation);
    case kFloat16:
      return combined<uint16_t, float>(operation, from_half, to_half);
    default: {
      const auto load = [](uint16_t bits) {
        const uint32_t wide = uint32_t{bits} << 16;
        float value;
        std::memcpy(&value, &wide, sizeof value);
        return value;
      };
      const auto store = [](float value) {
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
        return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
      };
      return combined<uint16_t, float>(operation, load, store);
    }
  }
}

// A place in device memory that a call reads or writes.
struct Place {
  void* memory;
  uint64_t bytes;
};

using Call = std::function<void(Group& group)>;

// Queues the call, once its arguments are found right. A stream goes on without it where the ranks are lost: the
// communicator tells of that by its asynchronous error, as NCCL's does.
int enqueue(void* handle, void* stream, const std::vector<Place>& places, Call call) {
  if (!is_live(handle)) return refused(kNcclInvalidArgument, "this communicator does not live");
  auto* communicator = static_cast<Communicator*>(handle);
  Gpu& gpu = *communicator->gpu;
  const std::lock_guard lock(gpu.mutex);
  if (current != &gpu) return refused(kNcclInvalidUsage, "the device of the communicator is not that of the thread");
  if (const int begun = gpu.begin()) return refused(1, "the device answers " + std::to_string(begun));
  if (!gpu.streams.contains(static_cast<Stream*>(stream))) return refused(1, "the stream does not live");
  const auto inside = [&gpu, places] {
    for (const Place& place : places)
      if (place.bytes && !gpu.has(place.memory, place.bytes)) return false;
    return true;
  };
  if (!inside()) return refused(kNcclInvalidArgument, "memory outside of one allocation of the device");
  const int status = gpu.enqueue(static_cast<Stream*>(stream), {[=]() -> int {
                                   if (!inside()) return kIllegalAddress;  // freed meanwhile
                                   if (!is_live(handle) || communicator->error) return kSuccess;
                                   try {
                                     call(*communicator->group);
                                   } catch (const GroupError& error) {
                                     say(error.text);
                                     communicator->error = error.kind == GroupError::kUsage ? 5 : 6;
                                     communicator->group->shut();
                                   }
                                   return kSuccess;
                                 }});
  return status ? refused(1, "the stream refuses the call with " + std::to_string(status)) : 0;
}

// Messages between ncclGroupStart and ncclGroupEnd of this thread; they move at the same time.
struct Waiting {
  void *communicator, *stream;
  bool sends;
  Message message;
};
thread_local int group_depth = 0;
thread_local std::vector<Waiting> waiting;

int issue_messages() {
  std::vector<Waiting> all = std::move(waiting);
  waiting.clear();
  while (!all.empty()) {
    void *const communicator = all[0].communicator, *const stream = all[0].stream;
    std::vector<Message> sends, receives;
    std::vector<Place> places;
    std::vector<Waiting> others;
    for (const Waiting& one : all) {
      if (one.communicator != communicator || one.stream != stream) {
        others.push_back(one);
        continue;
      }
      (one.sends ? sends : receives).push_back(one.message);
      places.push_back({one.message.data, one.message.bytes});
    }
    const int result = enqueue(communicator, stream, places,
                               [sends, receives](Group& group) { group.point_to_point(sends, receives); });
    if (result) return result;
    all = std::move(others);
  }
  return 0;
}

int message(void* memory, size_t count, int type, int peer, void* communicator, void* stream, bool sends) {
  if (!is_live(communicator) || type < 0 || type >= kTypes || peer < 0 ||
      peer >= static_cast<Communicator*>(communicator)->group->size())
    return refused(kNcclInvalidArgument, "a message with a wrong communicator, type or peer");
  waiting.push_back({communicator, stream, sends, {peer, static_cast<char*>(memory), count * kBytes[type]}});
  return group_depth ? 0 : issue_messages();
}

bool wrong(int type, int operation) { return type < 0 || type >= kTypes || operation < 0 || operation >= kOperations; }
char* bytes_at(const void* memory) { return static_cast<char*>(const_cast<void*>(memory)); }
uint64_t ranks_of(void* communicator) {
  return is_live(communicator) ? static_cast<uint64_t>(static_cast<Communicator*>(communicator)->group->size()) : 0;
}

}  // namespace

EXPORT int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}
EXPORT const char* ncclGetErrorString(int result) { return result ? "an error of the emulated library" : "no error"; }
EXPORT const char* ncclGetLastError(void*) { return last_error.c_str(); }

EXPORT int ncclGetUniqueId(UniqueId* id) {
  try {
    const IdText text{kMagic,
                      emulator_common::open_meeting(emulator_common::own_address("NCCL_SOCKET_IFNAME"), patience())};
    std::memset(id, 0, sizeof *id);
    std::memcpy(id, &text, sizeof text);
    return 0;
  } catch (const GroupError& error) {
    return refused(kNcclSystem, error.text);
  }
}

EXPORT int ncclCommInitRank(void** communicator, int ranks, UniqueId id, int rank) {
  IdText text;
  std::memcpy(static_cast<void*>(&text), &id, sizeof text);
  if (!communicator || text.magic != kMagic || rank < 0 || rank >= ranks)
    return refused(kNcclInvalidArgument, "no id of this library, or a rank beyond the number of ranks");
  if (!current) return refused(kNcclInvalidUsage, "this thread has no device");
  try {
    auto made = std::make_unique<Communicator>();
    made->gpu = current;
    made->group = std::make_unique<Group>(text.meeting, rank, ranks, emulator_common::own_address("NCCL_SOCKET_IFNAME"),
                                          patience());
    const std::lock_guard lock(live_mutex);
    live().insert(made.get());
    *communicator = made.release();
    return 0;
  } catch (const GroupError& error) {
    return refused(error.kind == GroupError::kSocket ? kNcclSystem : kNcclRemote, error.text);
  }
}

EXPORT int ncclCommGetAsyncError(void* communicator, int* error) {
  if (!is_live(communicator)) return refused(kNcclInvalidArgument, "this communicator does not live");
  *error = static_cast<Communicator*>(communicator)->error;
  return 0;
}

// Work that waits for other ranks ends; the handle goes with it, but for work that is still queued.
EXPORT int ncclCommAbort(void* communicator) {
  if (!is_live(communicator)) return refused(kNcclInvalidArgument, "this communicator does not live");
  auto* mine = static_cast<Communicator*>(communicator);
  mine->error = kNcclRemote;
  mine->group->shut();
  const std::lock_guard gpu(mine->gpu->mutex);  // work under way has ended
  const std::lock_guard lock(live_mutex);
  live().erase(mine);
  delete mine;
  return 0;
}

// The caller has waited for the work of the communicator.
EXPORT int ncclCommDestroy(void* communicator) { return ncclCommAbort(communicator); }

EXPORT int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, void* communicator,
                         void* stream) {
  if (wrong(type, operation)) return refused(kNcclInvalidArgument, "all-reduce: a wrong type or operation");
  const uint64_t bytes = count * kBytes[type];
  return enqueue(communicator, stream, {{bytes_at(from), bytes}, {to, bytes}}, [=](Group& group) {
    group.all_reduce(bytes_at(from), bytes_at(to), count, kBytes[type], combination(type, operation));
  });
}

EXPORT int ncclAllGather(const void* from, void* to, size_t count, int type, void* communicator, void* stream) {
  if (wrong(type, 0)) return refused(kNcclInvalidArgument, "all-gather: a wrong type");
  const uint64_t bytes = count * kBytes[type];
  return enqueue(communicator, stream, {{bytes_at(from), bytes}, {to, bytes * ranks_of(communicator)}},
                 [=](Group& group) { group.all_gather(bytes_at(from), bytes_at(to), bytes); });
}

EXPORT int ncclReduceScatter(const void* from, void* to, size_t count, int type, int operation, void* communicator,
                             void* stream) {
  if (wrong(type, operation)) return refused(kNcclInvalidArgument, "reduce-scatter: a wrong type or operation");
  const uint64_t bytes = count * kBytes[type];
  return enqueue(
      communicator, stream, {{bytes_at(from), bytes * ranks_of(communicator)}, {to, bytes}}, [=](Group& group) {
        group.reduce_scatter(bytes_at(from), bytes_at(to), count, kBytes[type], combination(type, operation));
      });
}

EXPORT int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, void* communicator,
                         void* stream) {
  if (wrong(type, 0) || root < 0 || static_cast<uint64_t>(root) >= ranks_of(communicator))
    return refused(kNcclInvalidArgument, "broadcast: a wrong type or root");
  const uint64_t bytes = count * kBytes[type];
  return enqueue(communicator, stream, {{bytes_at(from), bytes}, {to, bytes}},
                 [=](Group& group) { group.broadcast(bytes_at(from), bytes_at(to), bytes, root); });
}

EXPORT int ncclSend(const void* from, size_t count, int type, int peer, void* communicator, void* stream) {
  return message(bytes_at(from), count, type, peer, communicator, stream, true);
}
EXPORT int ncclRecv(void* to, size_t count, int type, int peer, void* communicator, void* stream) {
  return message(to, count, type, peer, communicator, stream, false);
}
EXPORT int ncclGroupStart() {
  ++group_depth;
  return 0;
}
EXPORT int ncclGroupEnd() {
  if (group_depth == 0) return refused(kNcclInvalidUsage, "the end of a group that was not begun");
  return --group_depth ? 0 : issue_messages();
}
