// SPDX-License-Identifier: Apache-2.0
// Codelets: classes with fields and compute(). popc finds the fields itself; here a codelet's file lists them:
//   EMULATED_CODELET(FIELDS(in, out), Scale<float>)
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "poplar/Type.hpp"

namespace poplar {

class Vertex {};
class MultiVertex : public Vertex {};
enum class VectorLayout { SPAN, ONE_PTR, COMPACT_PTR };

// A run of elements, in memory.
template <typename T, VectorLayout layout = VectorLayout::SPAN, unsigned alignment = alignof(T)>
class Vector {
 public:
  T& operator[](size_t i) const { return data_[i]; }
  size_t size() const { return size_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  void assign(T* data, size_t size) { data_ = data, size_ = size; }
  using Element = T;

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

template <typename T>
struct Input : T {};
template <typename T>
struct Output : T {};
template <typename T>
struct InOut : T {};

}  // namespace poplar

namespace ipu_emulator {

enum class Direction { kIn, kOut, kInOut, kValue };

// A field that is connected, or one with an initial value.
struct CodeletField {
  std::string name;
  Direction direction;
  poplar::Type type;
  std::function<void(void* vertex, void* data, size_t elements)> assign;         // of a vector
  std::function<void(void* vertex, double real, int64_t integer)> assign_value;  // of a value
};

struct Codelet {
  std::string name;
  std::vector<CodeletField> fields;
  std::function<void(const std::function<void(void*)>& fill)> run;  // makes a vertex, has it filled in, computes
};

std::map<std::string, Codelet>& codelets();

template <typename Class, typename Wrapped, template <typename> typename Wrapper>
CodeletField vector_field(const char* name, Wrapper<Wrapped> Class::*member, Direction direction) {
  return {name,
          direction,
          poplar::equivalent_device_type<typename Wrapped::Element>::value,
          [member](void* vertex, void* data, size_t elements) {
            (static_cast<Class*>(vertex)->*member).assign(static_cast<typename Wrapped::Element*>(data), elements);
          },
          {}};
}
template <typename Class, typename Wrapped>
CodeletField field_of(const char* name, poplar::Input<Wrapped> Class::*member) {
  return vector_field<Class, Wrapped, poplar::Input>(name, member, Direction::kIn);
}
template <typename Class, typename Wrapped>
CodeletField field_of(const char* name, poplar::Output<Wrapped> Class::*member) {
  return vector_field<Class, Wrapped, poplar::Output>(name, member, Direction::kOut);
}
template <typename Class, typename Wrapped>
CodeletField field_of(const char* name, poplar::InOut<Wrapped> Class::*member) {
  return vector_field<Class, Wrapped, poplar::InOut>(name, member, Direction::kInOut);
}
template <typename Class, typename T>
CodeletField field_of(const char* name, T Class::*member) {
  return {name, Direction::kValue, {}, {}, [member](void* vertex, double real, int64_t integer) {
            if constexpr (std::is_floating_point_v<T>) static_cast<Class*>(vertex)->*member = static_cast<T>(real);
            else static_cast<Class*>(vertex)->*member = static_cast<T>(integer);
          }};
}

template <typename Class>
struct RegisterCodelet {
  RegisterCodelet(const char* name, std::vector<CodeletField> fields) {
    std::string plain;  // as graph.addVertex has it: no blanks behind commas
    for (const char* c = name; *c; ++c)
      if (*c != ' ' || (plain.size() && std::isalpha(static_cast<unsigned char>(plain.back())))) plain += *c;
    codelets()[plain] = {plain, std::move(fields), [](const std::function<void(void*)>& fill) {
                           Class vertex;
                           fill(&vertex);
                           vertex.compute();
                         }};
  }
};

}  // namespace ipu_emulator

#define EMULATED_FIELD_1(C, a) ipu_emulator::field_of(#a, &C::a)
#define EMULATED_FIELD_2(C, a, ...) EMULATED_FIELD_1(C, a), EMULATED_FIELD_1(C, __VA_ARGS__)
#define EMULATED_FIELD_3(C, a, ...) EMULATED_FIELD_1(C, a), EMULATED_FIELD_2(C, __VA_ARGS__)
#define EMULATED_FIELD_4(C, a, ...) EMULATED_FIELD_1(C, a), EMULATED_FIELD_3(C, __VA_ARGS__)
#define EMULATED_FIELD_5(C, a, ...) EMULATED_FIELD_1(C, a), EMULATED_FIELD_4(C, __VA_ARGS__)
#define EMULATED_FIELD_6(C, a, ...) EMULATED_FIELD_1(C, a), EMULATED_FIELD_5(C, __VA_ARGS__)
#define EMULATED_FIELD_7(C, a, ...) EMULATED_FIELD_1(C, a), EMULATED_FIELD_6(C, __VA_ARGS__)
#define EMULATED_FIELD_8(C, a, ...) EMULATED_FIELD_1(C, a), EMULATED_FIELD_7(C, __VA_ARGS__)
#define EMULATED_PICK(_1, _2, _3, _4, _5, _6, _7, _8, name, ...) name
#define EMULATED_FIELDS(C, ...)                                                                                        \
  EMULATED_PICK(__VA_ARGS__, EMULATED_FIELD_8, EMULATED_FIELD_7, EMULATED_FIELD_6, EMULATED_FIELD_5, EMULATED_FIELD_4, \
                EMULATED_FIELD_3, EMULATED_FIELD_2, EMULATED_FIELD_1)                                                  \
  (C, __VA_ARGS__)
#define EMULATED_JOIN(a, b) a##b
#define EMULATED_NAME(line) EMULATED_JOIN(registered_codelet_, line)
// `Class` is one name; `text` is how graphs call the codelet.
#define EMULATED_CODELET(Class, text, ...)                                        \
  static const ipu_emulator::RegisterCodelet<Class> EMULATED_NAME(__LINE__)(text, \
                                                                            {EMULATED_FIELDS(Class, __VA_ARGS__)});
