// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <string_view>

#include "base/error.h"

namespace transom {
namespace {

constexpr std::string_view kStorages[] = {"FloatStorage",  "HalfStorage", "BFloat16Storage",
                                          "DoubleStorage", "LongStorage", "IntStorage",
                                          "CharStorage",   "ByteStorage", "BoolStorage"};
// _rebuild_tensor: of torch before 0.4.
constexpr std::string_view kFunctions[] = {"collections OrderedDict", "torch._utils _rebuild_tensor_v2",
                                           "torch._utils _rebuild_tensor", "torch._utils _rebuild_parameter"};
constexpr size_t kMaximumStack = 1 << 22, kMaximumName = 1 << 12, kMostDimensions = 64;

bool is_known(const std::string& name) {
  if (std::find(std::begin(kFunctions), std::end(kFunctions), name) != std::end(kFunctions)) return true;
  return name.starts_with("torch ") &&
         std::find(std::begin(kStorages), std::end(kStorages), std::string_view(name).substr(6)) != std::end(kStorages);
}

// The machine of the pickle format, with the opcodes of protocol 2 that state dicts hold.
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  Pickle run() {
    while (true) {
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (code == '.') {
        result_.root = pop();
        return std::move(result_);
      }
      step(code);
      if (stack_.size() > kMaximumStack) error("holds too many values");
    }
  }
  size_t taken() const { return at_; }

 private:
  void step(unsigned char code) {
    switch (code) {
      case 0x80:
        take(1);
        break;  // PROTO
      case '(':
        marks_.push_back(stack_.size());
        break;  // MARK
      case 'N':
        push({});
        break;  // NONE
      case 0x88:
        push({true});
        break;  // NEWTRUE
      case 0x89:
        push({false});
        break;  // NEWFALSE
      case 'K':
        push({static_cast<int64_t>(number<uint8_t>())});
        break;  // BININT1
      case 'M':
        push({static_cast<int64_t>(number<uint16_t>())});
        break;  // BININT2
      case 'J':
        push({static_cast<int64_t>(number<int32_t>())});
        break;  // BININT
      case 0x8a:
        push({long_number(number<uint8_t>())});
        break;  // LONG1
      case 'G':
        push({big_endian_double()});
        break;  // BINFLOAT
      case 'X':
        push_text(number<uint32_t>());
        break;  // BINUNICODE
      case 0x8c:
        push_text(number<uint8_t>());
        break;  // SHORT_BINUNICODE
      case 'T':
        push_text(number<uint32_t>());
        break;  // BINSTRING, of Python 2
      case 'U':
        push_text(number<uint8_t>());
        break;  // SHORT_BINSTRING
      case 'c':
        global();
        break;  // GLOBAL
      case ')':
        push_list({});
        break;  // EMPTY_TUPLE
      case ']':
        push_list({});
        break;  // EMPTY_LIST
      case '}':
        push({&result_.dicts.emplace_back()});
        break;  // EMPTY_DICT
      case 't':
        push_list(pop_to_mark());
        break;  // TUPLE
      case 'l':
        push_list(pop_to_mark());
        break;  // LIST
      case 0x85:
        push_list(pop_many(1));
        break;  // TUPLE1
      case 0x86:
        push_list(pop_many(2));
        break;  // TUPLE2
      case 0x87:
        push_list(pop_many(3));
        break;  // TUPLE3
      case 'a':
        append(pop_many(1));
        break;  // APPEND
      case 'e':
        append(pop_to_mark());
        break;  // APPENDS
      case 's':
        set_items(pop_many(2));
        break;  // SETITEM
      case 'u':
        set_items(pop_to_mark());
        break;  // SETITEMS
      case 'q':
        memo_[number<uint8_t>()] = top();
        break;  // BINPUT
      case 'r':
        memo_[number<uint32_t>()] = top();
        break;  // LONG_BINPUT
      case 'h':
        recall(number<uint8_t>());
        break;  // BINGET
      case 'j':
        recall(number<uint32_t>());
        break;  // LONG_BINGET
      case 'Q':
        persistent();
        break;  // BINPERSID
      case 'R':
        reduce();
        break;  // REDUCE
      case 'b':
        pop();
        break;  // BUILD: attributes of a dict, of no use
      case '0':
        pop();
        break;  // POP
      default:
        fail("{}: the pickle has the opcode 0x{:02x}, which no checkpoint of tensors needs; it is not read", where_,
             code);
    }
  }

  std::span<const std::byte> take(size_t size) {
    if (size > bytes_.size() - at_) error("ends early");
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  int64_t long_number(size_t size) {
    if (size > 8) error("has a number of more than 64 bits");
    const auto part = take(size);
    uint64_t value = size > 0 && (static_cast<unsigned char>(part[size - 1]) & 0x80) ? ~uint64_t{0} : 0;
    for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(part[i]);
    return static_cast<int64_t>(value);
  }
  double big_endian_double() {
    uint64_t bits = 0;
    for (const std::byte b : take(8)) bits = bits << 8 | static_cast<unsigned char>(b);
    return std::bit_cast<double>(bits);
  }
  void push_text(size_t size) {
    const auto part = take(size);
    push({&result_.texts.emplace_back(reinterpret_cast<const char*>(part.data()), part.size())});
  }
  std::string line() {
    std::string result;
    for (char c; (c = static_cast<char>(take(1)[0])) != '\n';) {
      if (result.size() == kMaximumName) error("holds a name that does not end");
      result += c;
    }
    return result;
  }

  void global() {
    const std::string module = line(), name = module + " " + line();
    if (!is_known(name))
      fail("{}: the pickle names {}; only tensors and plain values are read, and nothing is executed", where_,
           quoted(name));
    push({&result_.globals.emplace_back(PickleGlobal{name})});
  }

  // ('storage', <storage type>, key, device, size), before version 1.6 with a view of another storage or None behind
  void persistent() {
    const PickleList& parts = as_list(pop());
    if (parts.size() < 3) error("has a storage without a key");
    const auto* type = std::get_if<const PickleGlobal*>(&parts[1].value);
    const auto* key = std::get_if<const std::string*>(&parts[2].value);
    if (!type || !key || !(*type)->name.starts_with("torch ")) error("has a storage without type or key");
    if ((*key)->size() > kMaximumName) error("has a storage with a key that is too long");
    if (parts.size() > 5 && !std::holds_alternative<std::monostate>(parts[5].value))
      error("has a storage that is a view of another one");
    push({&result_.tensors.emplace_back(PickleTensor{(*type)->name.substr(6), **key, 0, {}, {}})});
  }

  void reduce() {
    const PickleList& arguments = as_list(pop());
    const PickleValue callee = pop();
    const auto* function = std::get_if<const PickleGlobal*>(&callee.value);
    if (!function) error("calls what is no function");
    const std::string& name = (*function)->name;
    if (name == "collections OrderedDict") {
      push({&result_.dicts.emplace_back()});
      return;
    }
    if (name == "torch._utils _rebuild_parameter") {
      if (arguments.empty()) error("has a parameter without data");
      push(arguments[0]);
      return;
    }
    const bool makes_tensor = name == "torch._utils _rebuild_tensor_v2" || name == "torch._utils _rebuild_tensor";
    if (!makes_tensor || arguments.size() < 4) error("calls a function in a way that is not known");
    const auto* storage = std::get_if<const PickleTensor*>(&arguments[0].value);
    const auto* offset = std::get_if<int64_t>(&arguments[1].value);
    if (!storage || !offset) error("has a tensor without storage or offset");
    push({&result_.tensors.emplace_back(PickleTensor{(*storage)->storage_type, (*storage)->storage_key, *offset,
                                                     numbers(arguments[2]), numbers(arguments[3])})});
  }

  std::vector<int64_t> numbers(const PickleValue& value) {
    const PickleList& items = as_list(value);
    if (items.size() > kMostDimensions) error("has a tensor of too many dimensions");
    std::vector<int64_t> result;
    for (const PickleValue& item : items) {
      const auto* number = std::get_if<int64_t>(&item.value);
      if (!number) error("has a shape that is not made of numbers");
      result.push_back(*number);
    }
    return result;
  }

  void push_list(PickleList items) { push({&result_.lists.emplace_back(std::move(items))}); }
  const PickleList& as_list(const PickleValue& value) {
    const auto* items = std::get_if<PickleList*>(&value.value);
    if (!items) error("has another value where a tuple is expected");
    return **items;
  }
  void append(const PickleList& items) {
    const auto* target = std::get_if<PickleList*>(&top().value);
    if (!target) error("appends to what is no list");
    (*target)->insert((*target)->end(), items.begin(), items.end());
  }
  void set_items(const PickleList& items) {
    const auto* target = std::get_if<PickleDict*>(&top().value);
    if (!target || items.size() % 2 != 0) error("sets items of what is no dict");
    for (size_t i = 0; i < items.size(); i += 2) (*target)->emplace_back(items[i], items[i + 1]);
  }
  void recall(uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) error("recalls what was never kept");
    push(found->second);
  }

  void push(PickleValue value) { stack_.push_back(value); }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  const PickleValue& top() {
    if (stack_.size() <= floor()) error("takes from an empty stack");
    return stack_.back();
  }
  PickleValue pop() {
    PickleValue value = top();
    stack_.pop_back();
    return value;
  }
  PickleList pop_many(size_t count) {
    if (stack_.size() - floor() < count) error("takes from an empty stack");
    PickleList items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  PickleList pop_to_mark() {
    if (marks_.empty()) error("takes up to a mark that is not there");
    const size_t count = stack_.size() - floor();
    PickleList items = pop_many(count);
    marks_.pop_back();
    return items;
  }
  [[noreturn]] void error(std::string_view what) {
    fail("{}: is no checkpoint of tensors: its pickle {}", where_, what);
  }

  std::span<const std::byte> bytes_;
  const std::string& where_;
  size_t at_ = 0;
  Pickle result_;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;
  std::map<uint32_t, PickleValue> memo_;
};

}  // namespace

Pickle read_pickle(std::span<const std::byte> bytes, const std::string& where, size_t* size) {
  Machine machine(bytes, where);
  Pickle pickle = machine.run();
  if (size) *size = machine.taken();
  return pickle;
}

}  // namespace transom
