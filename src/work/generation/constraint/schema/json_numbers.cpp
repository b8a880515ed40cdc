// SPDX-License-Identifier: Apache-2.0
// Ranges of numbers as automata over digits.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "work/generation/constraint/grammar/text_set.h"
#include "work/generation/constraint/schema/json_schema.h"

namespace transom::constraint {
namespace {

using Part = GrammarBuilder::Part;
constexpr int64_t kMost = 999'999'999'999'999'999;

Part digits(GrammarBuilder& builder, int64_t least, int64_t most) {
  return builder.repeat([&] { return builder.bytes('0', '9'); }, least, most);
}

uint8_t byte_of(char c) { return static_cast<uint8_t>(c); }

// Texts of digits of one length from `low` to `high`.
Part same_length(GrammarBuilder& builder, const std::string& low, const std::string& high) {
  if (low.empty()) return builder.empty();
  const auto rest = static_cast<int64_t>(low.size()) - 1;
  if (low[0] == high[0])
    return builder.sequence(
        {builder.bytes(byte_of(low[0]), byte_of(low[0])), same_length(builder, low.substr(1), high.substr(1))});
  std::vector<Part> parts;
  const std::string zeros(low.size() - 1, '0'), nines(low.size() - 1, '9');
  char from = low[0], to = high[0];
  if (low.substr(1) != zeros) {
    parts.push_back(
        builder.sequence({builder.bytes(byte_of(from), byte_of(from)), same_length(builder, low.substr(1), nines)}));
    ++from;
  }
  if (high.substr(1) != nines) {
    parts.push_back(
        builder.sequence({builder.bytes(byte_of(to), byte_of(to)), same_length(builder, zeros, high.substr(1))}));
    --to;
  }
  if (from <= to)
    parts.push_back(builder.sequence({builder.bytes(byte_of(from), byte_of(to)), digits(builder, rest, rest)}));
  return builder.either(parts);
}

// Whole numbers 0 <= low <= high, without leading zeros; none where low > high.
Part natural(GrammarBuilder& builder, int64_t low, int64_t high) {
  std::vector<Part> parts;
  while (low <= high) {
    const std::string text = std::to_string(low);
    const auto length = static_cast<int>(text.size());
    int64_t last = 9;
    for (int i = 1; i < length; ++i) last = last * 10 + 9;
    const int64_t to = std::min(last, high);
    parts.push_back(same_length(builder, text, std::to_string(to)));
    low = to + 1;
  }
  return builder.either(parts);
}

DecimalLimit decimal_of(const Json& value, const std::string& where, const std::string& name, bool excluded) {
  const auto shown = [&] { return quoted(value.dump(-1, ' ', false, Json::error_handler_t::replace)); };
  if (!value.is_number()) fail("{}.{}: expected a number, found {}", where, name, shown());
  DecimalLimit limit{.excluded = excluded};
  const auto number = value.get<double>();
  limit.negative = std::signbit(number);
  const bool whole = value.is_number_integer();
  const bool fits = !whole                       ? std::abs(number) < 1e18
                    : value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(kMost)
                                                 : value.get<int64_t>() >= -kMost && value.get<int64_t>() <= kMost;
  if (whole && fits) {
    limit.whole = std::abs(value.get<int64_t>());
    return limit;
  }
  if (!fits) {
    // What is written has at most 18 digits: such a limit is none, or nothing is within it.
    const bool is_least = name == "minimum" || name == "exclusiveMinimum";
    if (is_least != limit.negative)
      fail("{}.{}: numbers of more than 18 digits are not supported, found {}", where, name, shown());
    limit.whole = kMost;
    return limit;
  }
  std::string text = fmt::format("{}", std::abs(number));
  if (text.find('e') != text.npos) text = fmt::format("{:.17f}", std::abs(number));
  const size_t point = text.find('.');
  limit.whole = std::stoll(text.substr(0, point));
  if (point != text.npos) limit.fraction = text.substr(point + 1);
  while (!limit.fraction.empty() && limit.fraction.back() == '0') limit.fraction.pop_back();
  return limit;
}

// Whether a lies below b; the same number counts as below where one of both is excluded.
int compare(const DecimalLimit& a, const DecimalLimit& b) {
  const auto is_zero = [](const DecimalLimit& x) { return x.whole == 0 && x.fraction.empty(); };
  if (is_zero(a) && is_zero(b)) return 0;
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int order = a.whole != b.whole ? (a.whole < b.whole ? -1 : 1) : a.fraction.compare(b.fraction);
  return a.negative ? -order : order;
}

// ---- absolute values

// The smallest or greatest whole number within.
int64_t first_whole(const DecimalLimit& least) {
  return least.whole + (!least.fraction.empty() || least.excluded ? 1 : 0);
}
int64_t last_whole(const DecimalLimit& most) { return most.whole - (most.fraction.empty() && most.excluded ? 1 : 0); }

struct Digits {
  GrammarBuilder& builder;
  int64_t most;  // behind the point

  // Digits from place `at` on, none among them too.
  Part any(int64_t at) const { return digits(builder, 0, std::max<int64_t>(most - at, 0)); }
  Part some_not_zero(int64_t at) const {
    std::vector<Part> parts;
    for (; at < most; ++at) {
      const Part zeros = builder.literal(std::string(parts.size(), '0'));
      parts.push_back(builder.sequence({zeros, builder.bytes('1', '9'), any(at + 1)}));
    }
    return builder.either(parts);
  }

  // Digits behind the point from place `at` on, so that all are at least (or above) the limit's.
  Part from(const DecimalLimit& limit, int64_t at) const {
    if (at >= static_cast<int64_t>(limit.fraction.size())) return limit.excluded ? some_not_zero(at) : any(at);
    if (at >= most) return builder.either({});
    const char digit = limit.fraction[static_cast<size_t>(at)];
    std::vector<Part> parts{builder.sequence({builder.bytes(byte_of(digit), byte_of(digit)), from(limit, at + 1)})};
    if (digit < '9')
      parts.push_back(builder.sequence({builder.bytes(byte_of(static_cast<char>(digit + 1)), '9'), any(at + 1)}));
    return builder.either(parts);
  }

  // At most (or below) the limit's; none may be missing at place 0.
  Part up_to(const DecimalLimit& limit, int64_t at) const {
    const auto count = static_cast<int64_t>(limit.fraction.size());
    if (at >= count) return limit.excluded ? builder.either({}) : builder.empty();
    std::vector<Part> parts;
    if (at > 0) parts.push_back(builder.empty());  // fewer digits are a smaller number: the limit's last is not 0
    if (at < most) {
      const char digit = limit.fraction[static_cast<size_t>(at)];
      parts.push_back(builder.sequence({builder.bytes(byte_of(digit), byte_of(digit)), up_to(limit, at + 1)}));
      if (digit > '0')
        parts.push_back(builder.sequence({builder.bytes('0', byte_of(static_cast<char>(digit - 1))), any(at + 1)}));
    }
    return builder.either(parts);
  }
};

// Absolute values with or without a fraction, that are at least `least`.
Part at_least(GrammarBuilder& builder, const DecimalLimit& least, int64_t most_digits) {
  const Digits behind{builder, most_digits};
  std::vector<Part> parts;
  const auto fraction = [&](Part inside) { return builder.sequence({builder.literal("."), inside}); };
  const auto any_fraction = [&] { return builder.optional(fraction(digits(builder, 1, most_digits))); };
  const bool whole_too = least.fraction.empty() && !least.excluded;
  if (whole_too) parts.push_back(builder.sequence({natural(builder, least.whole, least.whole), any_fraction()}));
  else if (most_digits > 0)
    parts.push_back(builder.sequence({natural(builder, least.whole, least.whole), fraction(behind.from(least, 0))}));
  parts.push_back(most_digits > 0 ? builder.sequence({natural(builder, least.whole + 1, kMost), any_fraction()})
                                  : natural(builder, least.whole + 1, kMost));
  return builder.either(parts);
}

Part at_most(GrammarBuilder& builder, const DecimalLimit& most, int64_t most_digits) {
  const Digits behind{builder, most_digits};
  const auto fraction = [&](Part inside) { return builder.sequence({builder.literal("."), inside}); };
  std::vector<Part> parts{natural(builder, 0, last_whole(most))};
  if (most_digits > 0) {
    parts.push_back(builder.sequence({natural(builder, 0, most.whole - 1), fraction(digits(builder, 1, most_digits))}));
    if (!most.fraction.empty())
      parts.push_back(builder.sequence({natural(builder, most.whole, most.whole), fraction(behind.up_to(most, 0))}));
  }
  return builder.either(parts);
}

// Absolute values between both.
Part magnitudes(GrammarBuilder& builder, const DecimalLimit& least, const DecimalLimit& most, int64_t most_digits) {
  if (most_digits == 0) return natural(builder, first_whole(least), last_whole(most));
  const TextSet above = TextSet::of([&](GrammarBuilder& own) { return at_least(own, least, most_digits); });
  return above.both(TextSet::of([&](GrammarBuilder& own) { return at_most(own, most, most_digits); })).part(builder);
}

Part signed_part(GrammarBuilder& builder, const NumberLimits& limits, int64_t most_digits) {
  DecimalLimit least = limits.least.value_or(DecimalLimit{.negative = true, .whole = kMost});
  DecimalLimit most = limits.most.value_or(DecimalLimit{.whole = kMost});
  const DecimalLimit zero{};
  std::vector<Part> parts;
  // 0 has no sign.
  const int low = compare(least, zero), high = compare(most, zero);
  if (low < 0) {
    DecimalLimit near = high < 0 ? most : DecimalLimit{.excluded = true}, far = least;
    near.negative = far.negative = false;
    parts.push_back(builder.sequence({builder.literal("-"), magnitudes(builder, near, far, most_digits)}));
  }
  if (high > 0 || (high == 0 && !most.excluded)) {
    DecimalLimit near = low < 0 ? zero : least;
    near.negative = most.negative = false;
    parts.push_back(magnitudes(builder, near, most, most_digits));
  }
  return builder.either(parts);
}

}  // namespace

NumberLimits limits_in(const Json& schema, const std::string& where) {
  NumberLimits limits;
  const auto take = [&](const char* name, bool is_least, bool excluded) {
    if (!schema.contains(name) || schema[name] == false) return;
    if (schema[name] == true) fail("{}.{}: expected a number", where, name);
    const DecimalLimit found = decimal_of(schema[name], where, name, excluded);
    std::optional<DecimalLimit>& kept = is_least ? limits.least : limits.most;
    const int order = kept ? compare(found, *kept) : 1;
    if (!kept || (is_least ? order > 0 : order < 0) || (order == 0 && excluded)) kept = found;
  };
  take("minimum", true, false), take("maximum", false, false);
  take("exclusiveMinimum", true, true), take("exclusiveMaximum", false, true);
  return limits;
}

Part integer_part(GrammarBuilder& builder, const NumberLimits& limits) {
  if (limits.least || limits.most) return signed_part(builder, limits, 0);
  return builder.sequence(
      {builder.optional(builder.literal("-")),
       builder.either({builder.literal("0"), builder.sequence({builder.bytes('1', '9'), digits(builder, 0, 17)})})});
}

Part number_part(GrammarBuilder& builder, const NumberLimits& limits, int64_t most_digits) {
  if (limits.least || limits.most) {
    // Readers round to f64, which tells numbers of 15 digits apart: no text that is read as the limit stands beside it.
    size_t longest = 1;
    for (const auto& limit : {limits.least, limits.most})
      if (limit) longest = std::max(longest, std::to_string(limit->whole).size());
    const auto digits_left = std::max<int64_t>(15 - static_cast<int64_t>(longest), 0);
    return signed_part(builder, limits, std::min(most_digits, digits_left));
  }
  const auto fraction = [&] { return builder.sequence({builder.literal("."), digits(builder, 1, most_digits)}); };
  std::vector<Part> parts{integer_part(builder, limits), builder.optional(fraction())};
  if (most_digits >= 16) {
    const Part exponent = builder.sequence(
        {builder.either({builder.literal("e"), builder.literal("E")}),
         builder.optional(builder.either({builder.literal("+"), builder.literal("-")})), digits(builder, 1, 2)});
    parts.push_back(builder.optional(exponent));
  }
  return builder.sequence(parts);
}

}  // namespace transom::constraint
