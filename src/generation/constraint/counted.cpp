// SPDX-License-Identifier: Apache-2.0
#include "generation/constraint/counted.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace transom::constraint {
namespace {

using Part = GrammarBuilder::Part;
constexpr int64_t kPlain = 64;  // up to here each time has a state of its own

Part times(GrammarBuilder& builder, uint32_t rule, int64_t least, int64_t most) {
  return builder.repeat([&] { return builder.call(rule); }, least, most);
}

// Exactly `count` times.
Part exactly(GrammarBuilder& builder, uint32_t rule, int64_t count) {
  if (count <= kPlain) return times(builder, rule, count, count);
  const auto size = static_cast<int64_t>(std::sqrt(static_cast<double>(count)));
  const uint32_t block = builder.add_rule();
  builder.define(block, times(builder, rule, size, size));
  return builder.sequence(
      {times(builder, block, count / size, count / size), times(builder, rule, count % size, count % size)});
}

// Up to `count` times: whole blocks, then less than one. Within a block a text may also stand in what is less than one,
// so that it is in two places at once, never more.
Part up_to(GrammarBuilder& builder, uint32_t rule, int64_t count) {
  if (count <= kPlain) return times(builder, rule, 0, count);
  const auto size = static_cast<int64_t>(std::sqrt(static_cast<double>(count)));
  const uint32_t block = builder.add_rule(), less = builder.add_rule();
  builder.define(block, times(builder, rule, size, size));
  builder.define(less, times(builder, rule, 1, size - 1));
  Part rest = times(builder, rule, 0, count % size);
  for (int64_t i = 0; i < count / size; ++i)
    rest = builder.either({builder.empty(), builder.call(less), builder.sequence({builder.call(block), rest})});
  return rest;
}

}  // namespace

Part counted(GrammarBuilder& builder, uint32_t rule, int64_t least, int64_t most) {
  if (least > kMostCounted || most > kMostCounted) fail("a count above {} is not supported", kMostCounted);
  if (least < 0 || (most >= 0 && most < least)) fail("a repetition of {} to {} times is impossible", least, most);
  const Part head = exactly(builder, rule, least);
  return builder.sequence({head, most < 0 ? builder.star(builder.call(rule)) : up_to(builder, rule, most - least)});
}

}  // namespace transom::constraint
