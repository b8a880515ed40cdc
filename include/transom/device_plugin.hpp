// SPDX-License-Identifier: Apache-2.0
// What every plugin in C++17 needs beside device_plugin.h, in one header without a library: failures as exceptions that
// never cross the interface, structs of two sizes, and graphs copied into C++. A plugin may do without it.
#ifndef TRANSOM_DEVICE_PLUGIN_HPP
#define TRANSOM_DEVICE_PLUGIN_HPP

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "transom/device_plugin.h"

namespace transom::plugin {

// ---- failures

class Failure : public std::exception {
 public:
  Failure(transom_status status, std::string text) : status_(status), text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  transom_status status() const { return status_; }

 private:
  transom_status status_;
  std::string text_;
};

inline void expect(bool condition, const std::string& otherwise, transom_status status = TRANSOM_INVALID_ARGUMENT) {
  if (!condition) throw Failure(status, otherwise);
}

inline transom_status report(transom_error* error, transom_status status, const char* text) noexcept {
  std::snprintf(error->text, sizeof error->text, "%s", text);
  return status;
}

// Carries out body(); what it throws becomes a status and a line of text.
template <typename Body>
transom_status guarded(transom_error* error, Body&& body) noexcept {
  try {
    body();
    return TRANSOM_OK;
  } catch (const Failure& failure) {
    return report(error, failure.status(), failure.what());
  } catch (const std::bad_alloc&) {
    return report(error, TRANSOM_OUT_OF_MEMORY, "the host's memory is exhausted");
  } catch (const std::exception& exception) {
    return report(error, TRANSOM_INTERNAL, exception.what());
  } catch (...) {
    return report(error, TRANSOM_INTERNAL, "an exception of unknown type");
  }
}

// A function of the table from one that throws: entry<open> of void open(uint32_t, transom_device**) is a
// transom_status (*)(uint32_t, transom_device**, transom_error*).
template <auto body>
struct Entry;
template <typename... Arguments, void (*body)(Arguments...)>
struct Entry<body> {
  static transom_status call(Arguments... arguments, transom_error* error) {
    return guarded(error, [&] { body(arguments...); });
  }
};
template <auto body>
inline constexpr auto entry = &Entry<body>::call;

// ---- structs that grow

// Gives the other side what it can read of a struct, and sets its struct_size to that.
template <typename Struct>
void hand_over(Struct mine, Struct* theirs) {
  mine.struct_size = theirs->struct_size < sizeof mine ? theirs->struct_size : sizeof mine;
  std::memcpy(theirs, &mine, mine.struct_size);
}

// The fields of a struct of the other side that this header knows; what it does not hold is zero.
template <typename Struct>
Struct take_over(const Struct& theirs) {
  Struct mine{};
  const size_t size = theirs.struct_size < sizeof mine ? theirs.struct_size : sizeof mine;
  std::memcpy(&mine, &theirs, size);
  mine.struct_size = size;
  return mine;
}

// Fills in the table: `fill` sets the functions and the name of an empty one.
template <typename Fill>
transom_status open(const transom_host* host, transom_plugin* plugin, transom_error* error, Fill&& fill) noexcept {
  return guarded(error, [&] {
    expect(host->major == TRANSOM_PLUGIN_MAJOR,
           "expected version " + std::to_string(TRANSOM_PLUGIN_MAJOR) + " of the interface, found " +
               std::to_string(host->major),
           TRANSOM_UNSUPPORTED);
    transom_plugin mine{};
    mine.major = TRANSOM_PLUGIN_MAJOR;
    mine.minor = TRANSOM_PLUGIN_MINOR;
    fill(mine);
    hand_over(mine, plugin);
  });
}

// ---- the table (C++20)

#if defined(__cpp_concepts)

// clang-format off
// Every function of the table.
#define TRANSOM_PLUGIN_TABLE(X) \
  X(device_count) X(device_describe) X(device_open) X(device_close) X(buffer_allocate) X(buffer_import) \
  X(buffer_free) X(buffer_host_pointer) X(copy_to_device) X(copy_to_host) X(copy_on_device) X(memory_statistics) \
  X(stream_create) X(stream_destroy) X(stream_synchronize) X(event_create) X(event_destroy) X(event_record) \
  X(event_wait) X(event_elapsed) X(claims) X(compile) X(executable_destroy) X(run) X(executable_describe) \
  X(capture_begin) X(capture_end) X(capture_replay) X(capture_destroy) X(communicator_id) X(communicator_create) \
  X(communicator_destroy) X(all_reduce) X(all_gather) X(reduce_scatter) X(broadcast) X(profile) X(host_allocate) \
  X(host_free) X(event_query) X(event_synchronize) X(communicator_abort) X(memory_reset_peak) X(device_report) \
  X(all_to_all) X(send) X(receive) X(message_group_begin) X(message_group_end) \
  X(supports) X(executable_memory) X(settings)
// clang-format on

// A function of the table from one of a device that throws, as `entry`. A device that has `guard(error, work,
// arguments...)` for these arguments carries out the work itself, such as to refuse it after the card was lost.
template <typename Device, auto body>
struct TableEntry;
template <typename Device, typename... Arguments, void (*body)(Arguments...)>
struct TableEntry<Device, body> {
  static transom_status call(Arguments... arguments, transom_error* error) {
    const auto work = [&] { body(arguments...); };
    if constexpr (requires { Device::guard(error, work, arguments...); })
      return Device::guard(error, work, arguments...);
    else return guarded(error, work);
  }
};
template <typename Device, typename Field, auto body>
constexpr Field table_function() {
  if constexpr (std::is_convertible_v<decltype(body), Field>) return body;
  else return &TableEntry<Device, body>::call;
}

// Sets each function of the table for which Device has a static member of that name: one of the table's type, or one
// that throws and has no `error`. The others stay as they are.
template <typename Device>
void fill_table(transom_plugin& table) {
#define TRANSOM_SET(name) \
  if constexpr (requires { &Device::name; }) table.name = table_function<Device, decltype(table.name), &Device::name>();
  TRANSOM_PLUGIN_TABLE(TRANSOM_SET)
#undef TRANSOM_SET
}

#endif

// ---- graphs

using Shape = std::vector<int64_t>;

// In bytes; 0 for what is no element type.
inline size_t size_of(int32_t dtype) {
  static constexpr size_t sizes[] = {1, 1, 1, 4, 8, 4, 2, 2, 4, 8};
  return dtype < TRANSOM_BOOL || dtype > TRANSOM_FLOAT64 ? 0 : sizes[dtype];
}

// Calls body with a value of the C++ type of such elements; false where C++ has none (16-bit floats).
template <typename Body>
bool with_element(int32_t dtype, Body&& body) {
  switch (dtype) {
    case TRANSOM_BOOL:
    case TRANSOM_UINT8:
      return body(uint8_t{}), true;
    case TRANSOM_INT8:
      return body(int8_t{}), true;
    case TRANSOM_INT32:
      return body(int32_t{}), true;
    case TRANSOM_UINT32:
      return body(uint32_t{}), true;
    case TRANSOM_INT64:
      return body(int64_t{}), true;
    case TRANSOM_FLOAT32:
      return body(float{}), true;
    case TRANSOM_FLOAT64:
      return body(double{}), true;
    default:
      return false;
  }
}

// The number of elements; refuses what does not fit memory.
inline int64_t count_of(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    expect(extent >= 0 && (extent == 0 || count <= std::numeric_limits<int64_t>::max() / 8 / extent),
           "expected extents of at least 0 that fit memory");
    count *= extent;
  }
  return count;
}

// Of a dense row-major tensor.
inline Shape strides_of(const Shape& shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) strides[i] = stride;
  return strides;
}

// Calls body(index) for every index of the shape, in row-major order.
template <typename Body>
void for_each_index(const Shape& shape, Body&& body) {
  if (count_of(shape) == 0) return;
  for (Shape index(shape.size(), 0);;) {
    body(index);
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

// The nodes of a graph. Those of a newer host are longer than ours: struct_size is the step from one to the next.
class Nodes {
 public:
  explicit Nodes(const transom_graph& graph)
      : first_(reinterpret_cast<const char*>(graph.nodes)), count_(graph.nodes_count) {}

  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = transom_node;
    using difference_type = std::ptrdiff_t;
    using pointer = const transom_node*;
    using reference = const transom_node&;
    Iterator() = default;
    Iterator(const char* place, size_t index) : place_(place), index_(index) {}
    reference operator*() const {
      const auto& node = *reinterpret_cast<const transom_node*>(place_);
      if (node.struct_size < kLeast) refuse(node.struct_size);
      return node;
    }
    pointer operator->() const { return &**this; }
    Iterator& operator++() {
      place_ += (**this).struct_size;
      ++index_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return index_ == other.index_; }
    bool operator!=(const Iterator& other) const { return index_ != other.index_; }

   private:
    static constexpr size_t kLeast = offsetof(transom_node, region) + sizeof(void*);  // of 1.0
    [[noreturn]] static void refuse(size_t size) {
      throw Failure(TRANSOM_INVALID_ARGUMENT,
                    "expected nodes of at least " + std::to_string(kLeast) + " bytes, found " + std::to_string(size));
    }
    const char* place_ = nullptr;
    size_t index_ = 0;
  };
  Iterator begin() const { return {first_, 0}; }
  Iterator end() const { return {nullptr, count_}; }

 private:
  const char* first_;
  size_t count_;
};

struct Value {
  int32_t dtype;
  Shape shape;
  int64_t arena_offset;
  uint64_t flags;
  size_t bytes() const { return static_cast<size_t>(count_of(shape)) * size_of(dtype); }
};

// The attributes of a node, copied. What is asked for must be there, and of that kind.
class Attributes {
 public:
  Attributes() = default;
  Attributes(const transom_attribute* attributes, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const transom_attribute& a = attributes[i];
      entries_.push_back({a.name, a.kind, a.int_value, a.float_value, {}, {}});
      if (a.kind == TRANSOM_ATTRIBUTE_STRING && a.string_value) entries_.back().text = a.string_value;
      if (a.kind == TRANSOM_ATTRIBUTE_INTS) entries_.back().list.assign(a.ints, a.ints + a.ints_count);
    }
  }
  // As the interface passes them; as long as these live, unchanged.
  std::vector<transom_attribute> view() const {
    std::vector<transom_attribute> all;
    for (const Entry& e : entries_)
      all.push_back({e.name.c_str(), e.kind, e.integer, e.number,
                     e.kind == TRANSOM_ATTRIBUTE_STRING ? e.text.c_str() : nullptr,
                     e.kind == TRANSOM_ATTRIBUTE_INTS ? e.list.data() : nullptr, e.list.size()});
    return all;
  }
  bool has(const char* name) const { return find(name) != nullptr; }
  int64_t integer(const char* name) const {
    return expected(name, TRANSOM_ATTRIBUTE_INT, "expected an integer attribute '", "'").integer;
  }
  // An integer is a number, too.
  double number(const char* name) const {
    const Entry* entry = find(name);
    return entry && entry->kind == TRANSOM_ATTRIBUTE_FLOAT ? entry->number : static_cast<double>(integer(name));
  }
  const Shape& integers(const char* name) const {
    return expected(name, TRANSOM_ATTRIBUTE_INTS, "expected an attribute '", "' that is a list of integers").list;
  }
  const std::string& text(const char* name) const {
    return expected(name, TRANSOM_ATTRIBUTE_STRING, "expected an attribute '", "' that is a text").text;
  }

 private:
  struct Entry {
    std::string name;
    int32_t kind;
    int64_t integer;
    double number;
    Shape list;
    std::string text;
  };
  const Entry* find(const char* name) const {
    for (const Entry& entry : entries_)
      if (entry.name == name) return &entry;
    return nullptr;
  }
  const Entry& expected(const char* name, int32_t kind, const char* before, const char* behind) const {
    const Entry* entry = find(name);
    if (!entry || entry->kind != kind) throw Failure(TRANSOM_INVALID_ARGUMENT, std::string(before) + name + behind);
    return *entry;
  }
  std::vector<Entry> entries_;
};

struct Graph;

struct Node {
  std::string op, scope;
  std::vector<int32_t> inputs, outputs;
  Attributes attributes;
  std::shared_ptr<const Graph> region;  // of "fusion"
};

// A graph with its own copy of all that the host passed, its indices checked.
struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<int32_t> inputs, outputs;

  explicit Graph(const transom_graph& graph) {
    for (size_t i = 0; i < graph.values_count; ++i) {
      const transom_value& value = graph.values[i];
      expect(size_of(value.dtype) != 0, "no elements of type " + std::to_string(value.dtype), TRANSOM_UNSUPPORTED);
      values.push_back({value.dtype, Shape(value.shape, value.shape + value.rank), value.arena_offset, value.flags});
      values.back().bytes();
    }
    inputs = checked(graph.inputs, graph.inputs_count);
    outputs = checked(graph.outputs, graph.outputs_count);
    for (const transom_node& node : Nodes(graph))
      nodes.push_back({node.op, node.scope ? node.scope : "", checked(node.inputs, node.inputs_count),
                       checked(node.outputs, node.outputs_count), Attributes(node.attributes, node.attributes_count),
                       node.region ? std::make_shared<const Graph>(*node.region) : nullptr});
  }

 private:
  std::vector<int32_t> checked(const int32_t* list, size_t count) const {
    for (size_t i = 0; i < count; ++i)
      expect(list[i] >= 0 && static_cast<size_t>(list[i]) < values.size(), "expected a value of the graph");
    return {list, list + count};
  }
};

// Where each value lies in a launch, by the order of graph.values; null for values without elements and for those that
// the device plans itself. address(binding, bytes) says where a binding lies, and refuses what it does not hold.
template <typename Address>
auto places_of(const Graph& graph, const transom_launch& launch, Address&& address) {
  expect(launch.inputs_count == graph.inputs.size() && launch.outputs_count == graph.outputs.size(),
         "expected as many inputs and outputs as the graph has");
  std::vector<decltype(address(launch.arena, size_t{}))> places;
  for (const Value& value : graph.values) {
    const auto offset = launch.arena.offset + static_cast<size_t>(value.arena_offset);
    places.push_back(value.arena_offset < 0 ? nullptr : address({launch.arena.buffer, offset}, value.bytes()));
  }
  const auto bind = [&](const std::vector<int32_t>& list, const transom_binding* bindings) {
    for (size_t i = 0; i < list.size(); ++i) {
      const auto value = static_cast<size_t>(list[i]);
      places[value] = address(bindings[i], graph.values[value].bytes());
    }
  };
  bind(graph.inputs, launch.inputs);
  bind(graph.outputs, launch.outputs);
  return places;
}

}  // namespace transom::plugin

#endif
