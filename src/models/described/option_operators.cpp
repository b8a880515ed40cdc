// SPDX-License-Identifier: Apache-2.0
#include "models/described/option_operators.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/infinity.h"

namespace transom {
namespace {

using Arguments = std::span<const Json>;

double number(const Json& value, const std::string& where) {
  if (!value.is_number()) fail("{}: expected a number, found {}", where, quoted(dump_json(value), 100));
  return value.get<double>();
}

// Whole numbers stay whole as long as a double holds them exactly.
Json counted(double value, Arguments arguments, const std::string& where) {
  if (!std::isfinite(value)) fail("{}: the result is no finite number", where);
  bool whole = value == std::floor(value) && std::abs(value) < 9007199254740992.0;
  for (const Json& argument : arguments) whole = whole && argument.is_number_integer();
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

double divisor(Arguments arguments, const std::string& where) {
  const double by = number(arguments[1], where);
  if (by == 0) fail("{}: a division by 0", where);
  return by;
}

Json sum(Arguments arguments, const std::string& where) {
  double total = 0;
  for (const Json& argument : arguments) total += number(argument, where);
  return counted(total, arguments, where);
}

Json product(Arguments arguments, const std::string& where) {
  double total = 1;
  for (const Json& argument : arguments) total *= number(argument, where);
  return counted(total, arguments, where);
}

Json whole_quotient(Arguments arguments, const std::string& where) {
  return counted(std::floor(number(arguments[0], where) / divisor(arguments, where)), arguments, where);
}

// As Python's: of the divisor's sign.
Json remainder(Arguments arguments, const std::string& where) {
  const double x = number(arguments[0], where), by = divisor(arguments, where);
  return counted(x - std::floor(x / by) * by, arguments, where);
}

Json power(Arguments arguments, const std::string& where) {
  const double value = std::pow(number(arguments[0], where), number(arguments[1], where));
  if (!std::isfinite(value)) fail("{}: the result is no finite number", where);
  return value;
}

bool same(const Json& a, const Json& b) {
  return a.is_number() && b.is_number() ? a.get<double>() == b.get<double>() : a == b;
}

// How many elements a list has, or characters a text; null where there is neither.
Json length(Arguments arguments, const std::string& where) {
  const Json& value = arguments[0];
  if (value.is_null()) return nullptr;
  if (value.is_string()) return value.get_ref<const std::string&>().size();
  if (!value.is_array()) fail("{}: expected a list, found {}", where, quoted(dump_json(value), 100));
  return value.size();
}

// Element i of a list, or character i of a text; null where there is neither.
Json at(Arguments arguments, const std::string& where) {
  const Json count = length(arguments, where);
  if (count.is_null()) return nullptr;
  const double place = number(arguments[1], where);
  if (!(place >= 0) || place >= count.get<double>())
    fail("{}: expected a list of more than {} elements, found {}", where, place, count.get<uint64_t>());
  const auto i = static_cast<size_t>(place);
  if (arguments[0].is_string()) return std::string(1, arguments[0].get_ref<const std::string&>()[i]);
  return arguments[0][i];
}

// Of numbers, and of the elements of lists; null where there are none.
Json largest(Arguments arguments, const std::string& where) {
  Json found;
  const auto consider = [&](const Json& value) {
    if (found.is_null() || number(value, where) > number(found, where)) found = value;
  };
  for (const Json& argument : arguments)
    if (argument.is_array()) std::for_each(argument.begin(), argument.end(), consider);
    else if (!argument.is_null()) consider(argument);
  return found;
}

// The first place of a value in a list; null where it is not there.
Json index(Arguments arguments, const std::string& where) {
  if (arguments[1].is_null()) return nullptr;
  if (!arguments[1].is_array()) fail("{}: expected a list, found {}", where, quoted(dump_json(arguments[1]), 100));
  const auto found = std::find_if(arguments[1].begin(), arguments[1].end(),
                                  [&](const Json& each) { return same(each, arguments[0]); });
  return found == arguments[1].end() ? Json() : Json(static_cast<int64_t>(found - arguments[1].begin()));
}

// Whether a list has the value, or a text another one; false where there is no list.
Json among(Arguments arguments, const std::string& where) {
  if (arguments[1].is_null()) return false;
  if (arguments[0].is_string() && arguments[1].is_string())
    return arguments[1].get_ref<const std::string&>().find(arguments[0].get_ref<const std::string&>()) !=
           std::string::npos;
  if (!arguments[1].is_array()) fail("{}: expected a list, found {}", where, quoted(dump_json(arguments[1]), 100));
  return std::any_of(arguments[1].begin(), arguments[1].end(),
                     [&](const Json& each) { return same(each, arguments[0]); });
}

// The first, which is to be one of the others.
Json one_of(Arguments arguments, const std::string& where) {
  for (const Json& allowed : arguments.subspan(1))
    if (same(arguments[0], allowed)) return arguments[0];
  std::vector<std::string> words;
  for (const Json& allowed : arguments.subspan(1)) words.push_back(dump_json(allowed));
  fail("{}: expected one of {}, found {}", where, fmt::join(words, ", "), quoted(dump_json(arguments[0]), 100));
}

// [[["global", "local"], 2]] -> ["global", "local", "global", "local"]; null stays.
Json unrolled(Arguments arguments, const std::string& where) {
  constexpr size_t kMost = 1 << 16;
  const Json& runs = arguments[0];
  if (runs.is_null()) return nullptr;
  Json list = Json::array();
  const auto refuse = [&]() {
    fail("{}: expected lists [elements, how often], found {}", where, quoted(dump_json(runs), 100));
  };
  if (!runs.is_array()) refuse();
  for (const Json& run : runs) {
    if (!run.is_array() || run.size() != 2 || !run[0].is_array() || !run[1].is_number_unsigned()) refuse();
    const auto times = run[1].get<uint64_t>();
    if (times > kMost || (run[0].size() > 0 && times > (kMost - list.size()) / run[0].size()))
      fail("{}: expected at most {} elements", where, kMost);
    for (uint64_t i = 0; i < times; ++i)
      for (const Json& element : run[0]) list.push_back(element);
  }
  return list;
}

constexpr size_t kMany = 16;
constexpr OptionOperator kOperators[] = {
    {"sum", 2, kMany, sum},
    {"difference", 2, 2,
     [](Arguments a, const std::string& where) {
       return counted(number(a[0], where) - number(a[1], where), a, where);
     }},
    {"product", 2, kMany, product},
    {"quotient", 2, 2,
     [](Arguments a, const std::string& where) { return Json(number(a[0], where) / divisor(a, where)); }},
    {"whole_quotient", 2, 2, whole_quotient},
    {"remainder", 2, 2, remainder},
    {"power", 2, 2, power},
    {"equal", 2, 2, [](Arguments a, const std::string&) { return Json(same(a[0], a[1])); }},
    {"less", 2, 2,
     [](Arguments a, const std::string& where) { return Json(number(a[0], where) < number(a[1], where)); }},
    {"given", 1, 1, [](Arguments a, const std::string&) { return Json(!a[0].is_null()); }},
    {"at", 2, 2, at},
    {"list", 1, kMany,
     [](Arguments a, const std::string&) {
       Json list = Json::array();
       for (const Json& element : a) list.push_back(element);
       return list;
     }},
    {"index", 2, 2, index},
    {"among", 2, 2, among},
    {"one_of", 2, kMany, one_of},
    {"largest", 1, kMany, largest},
    {"length", 1, 1, length},
    {"infinite", 1, 1, [](Arguments a, const std::string&) { return Json(is_infinity(a[0])); }},
    {"unrolled", 1, 1, unrolled},
};

}  // namespace

std::span<const OptionOperator> option_operators() { return kOperators; }

const OptionOperator* find_option_operator(std::string_view name) {
  for (const OptionOperator& each : kOperators)
    if (each.name == name) return &each;
  return nullptr;
}

}  // namespace transom
