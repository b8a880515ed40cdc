// SPDX-License-Identifier: Apache-2.0
// A fact that each record has to state. It has no default: a record that leaves it out does not compile.
#pragma once

#include <concepts>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace transom {

// What a record states where the family has nothing of the kind: `.tokenizer = none`.
struct None {};
inline constexpr None none{};

template <typename T>
class Stated {
 public:
  Stated() = delete;
  Stated(None) : value_{} {}
  Stated(T value) : value_(std::move(value)) {}
  template <typename U>
  requires(std::convertible_to<U, T> && !std::same_as<std::remove_cvref_t<U>, T>) Stated(U&& value)
      : value_(std::forward<U>(value)) {}
  template <typename U>
  requires std::constructible_from<T, const U*, const U*> Stated(std::initializer_list<U> values)
      : value_(values.begin(), values.end()) {}

  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_;
};

}  // namespace transom
