// SPDX-License-Identifier: Apache-2.0
// A template once it is parsed.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "inputs/text/jinja/value.h"

namespace transom::jinja {

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    kConstant,
    kName,
    kList,
    kTuple,
    kDictionary,  // parts: key, value, key, value ...
    kAttribute,   // parts[0].name
    kSubscript,   // parts[0][parts[1]]
    kSlice,       // parts[0][parts[1]:parts[2]:parts[3]], each of the three may be null
    kCall,        // parts[0](parts[1] ..., named)
    kFilter,      // parts[0] | name(parts[1] ..., named); parts[0] is null in a filter block
    kTest,        // parts[0] is name(parts[1] ...)
    kNot,
    kNegative,
    kPositive,
    kAnd,
    kOr,
    kBinary,      // parts[0] name parts[1]
    kComparison,  // parts[0] operators[0] parts[1] operators[1] parts[2] ...
    kConcatenation,
    kConditional,  // parts[1] if parts[0] else parts[2], which may be null
    kSpread,       // *parts[0] among the arguments of a call; one named "**" spreads a dictionary
  };
  Kind kind = Kind::kConstant;
  int line = 0, depth = 0;
  std::string name;
  Value constant;
  std::vector<ExpressionPointer> parts;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
  std::vector<std::string> operators;
};

struct Statement;
using Body = std::vector<Statement>;

struct Statement {
  enum class Kind {
    kText,
    kOutput,     // value
    kIf,         // branches with conditions; a null condition: else
    kFor,        // names in value, kept where filter is true: bodies[0], else bodies[1]; marked: recursive
    kSet,        // names = value; with one name, `name_space` may hold what it is an attribute of
    kSetBlock,   // names[0] = text of bodies[0], through value if there is one
    kMacro,      // text(names = defaults): bodies[0]
    kCallBlock,  // value, a call, with caller(names = defaults): bodies[0]
    kFilterBlock,
    kWith,        // names = defaults in bodies[0]
    kGeneration,  // bodies[0] as it stands, which is what the model writes
    kBlock,       // bodies[0], which sees what the template sets outside of loops; marked: all that stands around it
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  int line = 0;
  bool marked = false;
  std::string text;
  std::string name_space;
  std::vector<std::string> names;
  ExpressionPointer value, filter;
  std::vector<ExpressionPointer> conditions;  // of kIf: one a body
  std::vector<ExpressionPointer> defaults;    // of kMacro and kCallBlock: of the last names
  std::vector<Body> bodies;
};

// An error names the line.
Body parse_template(std::string_view source);

}  // namespace transom::jinja
