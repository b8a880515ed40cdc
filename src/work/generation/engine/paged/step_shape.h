// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace transom {

// A program is compiled for each shape, so that numbers are rounded up to a few. Up to 16 tokens there is nothing in
// excess; above, less than a quarter, which the chunks of prompts mostly fill.
int64_t rounded_tokens(int64_t tokens);
// One of these numbers that is not above `tokens`, which is at least 1, and more than two thirds of it: of steps that
// are cut to a size, which a server has by the thousand, there are half as many shapes.
int64_t floor_tokens(int64_t tokens);
// Tokens whose scores are computed, of `tokens` that a step of rounded_tokens(tokens) has. All of them in a step
// without prompts; beside a prompt powers of two, and from 16 on what lies in the middle of two, leave few shapes.
int64_t rounded_scored(int64_t scored, int64_t tokens);
// Blocks of a text: a device reads those that are there, whatever the table has room for. Each size that texts grow
// through has programs of its own, so that there are few.
int64_t rounded_blocks(int64_t blocks);

}  // namespace transom
