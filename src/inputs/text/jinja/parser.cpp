// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/text/numbers.h"
#include "inputs/text/jinja/lexer.h"
#include "inputs/text/jinja/nodes.h"

namespace transom::jinja {
namespace {

using Kind = Expression::Kind;
using Lexeme = Token::Kind;

constexpr int kMaximumParserDepth = 200;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize_template(source)) {}

  Body run() {
    Body body = statements({});
    require(peek().kind == Lexeme::kEnd, "line {}: unexpected {}", peek().line, found());
    return body;
  }

 private:
  // Counts how deep calls are nested.
  struct Level {
    explicit Level(Parser& owner) : parser(owner) {
      require(++parser.depth_ < kMaximumParserDepth, "line {}: is nested deeper than {} levels", parser.peek().line,
              kMaximumParserDepth);
    }
    ~Level() { --parser.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    Parser& parser;
  };

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_symbol(std::string_view text) const { return peek().kind == Lexeme::kSymbol && peek().text == text; }
  bool is_name(std::string_view text) const { return peek().kind == Lexeme::kName && peek().text == text; }
  bool accept_symbol(std::string_view text) { return is_symbol(text) && (take(), true); }
  bool accept_name(std::string_view text) { return is_name(text) && (take(), true); }
  std::string found() const {
    switch (peek().kind) {
      case Lexeme::kBlockEnd:
        return "'%}'";
      case Lexeme::kOutputEnd:
        return "'}}'";
      case Lexeme::kEnd:
        return "the end of the template";
      default:
        return quoted(peek().text);
    }
  }
  void expect_symbol(std::string_view text) {
    require(accept_symbol(text), "line {}: expected '{}', found {}", peek().line, text, found());
  }
  void expect_name(std::string_view text) {
    require(accept_name(text), "line {}: expected '{}', found {}", peek().line, text, found());
  }
  std::string name() {
    require(peek().kind == Lexeme::kName, "line {}: expected a name, found {}", peek().line, found());
    return take().text;
  }
  void block_end() {
    require(peek().kind == Lexeme::kBlockEnd, "line {}: expected '%}}', found {}", peek().line, found());
    take();
  }

  // --- statements

  // Up to a block that begins with one of `ends`, whose name is taken and returned in ended_.
  Body statements(std::initializer_list<std::string_view> ends) {
    const Level level(*this);
    Body body;
    while (true) {
      const Token& token = peek();
      if (token.kind == Lexeme::kEnd) {
        if (ends.size() == 0) return body;
        require(false, "line {}: expected '{}' before the end of the template", token.line, *(ends.end() - 1));
      }
      if (token.kind == Lexeme::kText) {
        Statement text;
        text.text = take().text;
        body.push_back(std::move(text));
      } else if (token.kind == Lexeme::kOutputBegin) {
        take();
        Statement output;
        output.kind = Statement::Kind::kOutput, output.line = token.line;
        output.value = tuple();
        require(peek().kind == Lexeme::kOutputEnd, "line {}: expected '}}}}', found {}", peek().line, found());
        take();
        body.push_back(std::move(output));
      } else {
        take();
        if (std::find(ends.begin(), ends.end(), peek().text) != ends.end() && peek().kind == Lexeme::kName) {
          ended_ = take().text;
          return body;
        }
        body.push_back(statement());
      }
    }
  }

  Statement statement() {
    Statement result;
    result.line = peek().line;
    const std::string keyword = name();
    using S = Statement::Kind;
    if (keyword == "if") {
      result.kind = S::kIf;
      std::string branch = keyword;
      while (branch != "endif") {
        result.conditions.push_back(branch == "else" ? nullptr : tuple(false));
        block_end();
        if (branch == "else") result.bodies.push_back(statements({"endif"}));
        else result.bodies.push_back(statements({"elif", "else", "endif"}));
        branch = ended_;
      }
    } else if (keyword == "for") {
      result.kind = S::kFor;
      result.names = targets();
      expect_name("in");
      result.value = tuple(false);
      if (accept_name("if")) result.filter = expression();
      result.marked = accept_name("recursive");
      block_end();
      result.bodies.push_back(statements({"else", "endfor"}));
      if (ended_ == "else") {
        block_end();
        result.bodies.push_back(statements({"endfor"}));
      }
    } else if (keyword == "set") {
      set(result);
    } else if (keyword == "macro") {
      result.kind = S::kMacro;
      result.text = name();
      parameters(result);
      block_end();
      result.bodies.push_back(statements({"endmacro"}));
      if (peek().kind == Lexeme::kName) take();
    } else if (keyword == "call") {
      result.kind = S::kCallBlock;
      if (is_symbol("(")) parameters(result);
      result.value = expression();
      require(result.value->kind == Kind::kCall, "line {}: expected a call", result.line);
      block_end();
      result.bodies.push_back(statements({"endcall"}));
    } else if (keyword == "filter") {
      result.kind = S::kFilterBlock;
      result.value = filters(nullptr, true);
      block_end();
      result.bodies.push_back(statements({"endfilter"}));
    } else if (keyword == "with") {
      result.kind = S::kWith;
      while (peek().kind == Lexeme::kName) {
        result.names.push_back(name());
        expect_symbol("=");
        result.defaults.push_back(expression());
        if (!accept_symbol(",")) break;
      }
      block_end();
      result.bodies.push_back(statements({"endwith"}));
    } else if (keyword == "generation") {
      result.kind = S::kGeneration;
      block_end();
      result.bodies.push_back(statements({"endgeneration"}));
    } else if (keyword == "block") {
      result.kind = S::kBlock;
      result.text = name();
      require(blocks_.insert(result.text).second, "line {}: block {} defined twice", result.line, quoted(result.text));
      result.marked = accept_name("scoped");
      accept_name("required");
      block_end();
      result.bodies.push_back(statements({"endblock"}));
      if (peek().kind == Lexeme::kName) take();
    } else if (keyword == "break" || keyword == "continue") {
      result.kind = keyword == "break" ? S::kBreak : S::kContinue;
    } else {
      fail("line {}: the statement {} is not known", result.line, quoted(keyword));
    }
    block_end();
    return result;
  }

  void set(Statement& result) {
    result.kind = Statement::Kind::kSet;
    result.names = targets();
    if (result.names.size() == 1 && accept_symbol(".")) {
      result.name_space = result.names[0];
      result.names[0] = name();
    }
    if (accept_symbol("=")) {
      result.value = tuple();
      return;
    }
    result.kind = Statement::Kind::kSetBlock;
    require(result.names.size() == 1, "line {}: expected one name", result.line);
    if (is_symbol("|")) result.value = filters(nullptr);
    block_end();
    result.bodies.push_back(statements({"endset"}));
  }

  std::vector<std::string> targets() {
    std::vector<std::string> names;
    const bool bracket = accept_symbol("(");
    do {
      if (is_symbol(")") || is_name("in") || is_symbol("=")) break;
      names.push_back(name());
    } while (accept_symbol(","));
    if (bracket) expect_symbol(")");
    require(!names.empty(), "line {}: expected a name, found {}", peek().line, found());
    return names;
  }

  void parameters(Statement& result) {
    expect_symbol("(");
    while (!accept_symbol(")")) {
      result.names.push_back(name());
      if (accept_symbol("=")) result.defaults.push_back(expression());
      else
        require(result.defaults.empty(), "line {}: the parameter {} without a default follows one with", peek().line,
                quoted(result.names.back()));
      if (!is_symbol(")")) expect_symbol(",");
    }
  }

  // --- expressions

  ExpressionPointer make(Kind kind, ExpressionPointer first = nullptr, ExpressionPointer second = nullptr) {
    auto result = std::make_unique<Expression>();
    result->kind = kind, result->line = peek().line;
    if (first) result->line = first->line, add(*result, std::move(first));
    if (second) add(*result, std::move(second));
    return result;
  }

  static void add(Expression& parent, ExpressionPointer part) {
    if (part) parent.depth = std::max(parent.depth, part->depth + 1);
    require(parent.depth < kMaximumParserDepth, "line {}: an expression is nested deeper than {} levels", parent.line,
            kMaximumParserDepth);
    parent.parts.push_back(std::move(part));
  }

  bool ends_tuple() const {
    return peek().kind == Lexeme::kBlockEnd || peek().kind == Lexeme::kOutputEnd || is_symbol(")") || is_symbol("]");
  }

  // a, b, c; one expression without a comma is itself. Without `conditional` an "if" ends it.
  ExpressionPointer tuple(bool conditional = true) {
    auto first = conditional ? expression() : disjunction();
    if (!is_symbol(",")) return first;
    auto result = make(Kind::kTuple, std::move(first));
    while (accept_symbol(",")) {
      if (ends_tuple()) break;
      add(*result, expression());
    }
    return result;
  }

  ExpressionPointer expression() {
    const Level level(*this);
    auto result = disjunction();
    while (accept_name("if")) {
      auto condition = disjunction();
      auto conditional = make(Kind::kConditional, std::move(condition), std::move(result));
      add(*conditional, accept_name("else") ? expression() : nullptr);
      result = std::move(conditional);
    }
    return result;
  }

  ExpressionPointer disjunction() {
    auto result = conjunction();
    while (accept_name("or")) result = make(Kind::kOr, std::move(result), conjunction());
    return result;
  }
  ExpressionPointer conjunction() {
    auto result = negation();
    while (accept_name("and")) result = make(Kind::kAnd, std::move(result), negation());
    return result;
  }
  ExpressionPointer negation() {
    const Level level(*this);
    return accept_name("not") ? make(Kind::kNot, negation()) : comparison();
  }

  ExpressionPointer comparison() {
    auto result = make(Kind::kComparison, sum());
    constexpr std::string_view kSymbols[] = {"==", "!=", "<", "<=", ">", ">="};
    while (true) {
      const bool symbol = peek().kind == Lexeme::kSymbol &&
                          std::find(std::begin(kSymbols), std::end(kSymbols), peek().text) != std::end(kSymbols);
      if (symbol || is_name("in")) {
        result->operators.push_back(take().text);
      } else if (is_name("not") && peek(1).kind == Lexeme::kName && peek(1).text == "in") {
        take(), take();
        result->operators.emplace_back("not in");
      } else {
        break;
      }
      add(*result, sum());
    }
    return result->operators.empty() ? std::move(result->parts[0]) : std::move(result);
  }

  template <typename Operand>
  ExpressionPointer binary(std::initializer_list<std::string_view> symbols, const Operand& operand) {
    auto result = operand();
    while (peek().kind == Lexeme::kSymbol && std::find(symbols.begin(), symbols.end(), peek().text) != symbols.end()) {
      std::string symbol = take().text;
      result = make(Kind::kBinary, std::move(result), operand());
      result->name = std::move(symbol);
    }
    return result;
  }
  ExpressionPointer sum() {
    return binary({"+", "-"}, [&] { return concatenation(); });
  }
  ExpressionPointer concatenation() {
    auto first = product();
    if (!is_symbol("~")) return first;
    auto result = make(Kind::kConcatenation, std::move(first));
    while (accept_symbol("~")) add(*result, product());
    return result;
  }
  ExpressionPointer product() {
    return binary({"*", "/", "//", "%"}, [&] { return power(); });
  }
  ExpressionPointer power() {
    return binary({"**"}, [&] { return unary(true); });
  }

  ExpressionPointer unary(bool with_filters) {
    const Level level(*this);
    ExpressionPointer result;
    if (accept_symbol("-")) result = make(Kind::kNegative, unary(false));
    else if (accept_symbol("+")) result = make(Kind::kPositive, unary(false));
    else result = primary();
    result = postfix(std::move(result));
    return with_filters ? filters(std::move(result)) : std::move(result);
  }

  ExpressionPointer primary() {
    auto result = make(Kind::kConstant);
    const Token token = take();
    if (token.kind == Lexeme::kName) {
      if (token.text == "true" || token.text == "True") result->constant = true;
      else if (token.text == "false" || token.text == "False") result->constant = false;
      else if (token.text == "none" || token.text == "None") result->constant = None{};
      else result->kind = Kind::kName, result->name = token.text;
    } else if (token.kind == Lexeme::kString) {
      std::string text = token.text;
      while (peek().kind == Lexeme::kString) text += take().text;
      result->constant = std::move(text);
    } else if (token.kind == Lexeme::kInteger) {
      int64_t value = 0;
      const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      require(error == std::errc(), "line {}: {} is no number of 64 bits", token.line, token.text);
      result->constant = value;
    } else if (token.kind == Lexeme::kFloat) {
      result->constant = parse_double(token.text).value_or(0);
    } else if (token.kind == Lexeme::kSymbol && token.text == "(") {
      if (accept_symbol(")")) return result->kind = Kind::kTuple, std::move(result);
      result = tuple();
      expect_symbol(")");
    } else if (token.kind == Lexeme::kSymbol && (token.text == "[" || token.text == "{")) {
      const bool list = token.text == "[";
      const std::string_view end = list ? "]" : "}";
      result->kind = list ? Kind::kList : Kind::kDictionary;
      while (!accept_symbol(end)) {
        add(*result, expression());
        if (!list) expect_symbol(":"), add(*result, expression());
        if (!is_symbol(end)) expect_symbol(",");
      }
    } else {
      --at_;
      fail("line {}: expected an expression, found {}", peek().line, found());
    }
    return result;
  }

  ExpressionPointer postfix(ExpressionPointer value) {
    while (true) {
      if (accept_symbol(".")) {
        value = make(Kind::kAttribute, std::move(value));
        if (peek().kind == Lexeme::kInteger) value->kind = Kind::kSubscript, add(*value, primary());
        else value->name = name();
      } else if (accept_symbol("[")) {
        value = subscript(std::move(value));
      } else if (is_symbol("(")) {
        value = make(Kind::kCall, std::move(value));
        arguments(*value);
      } else {
        return value;
      }
    }
  }

  ExpressionPointer subscript(ExpressionPointer value) {
    auto result = make(Kind::kSubscript, std::move(value));
    std::vector<ExpressionPointer> parts;
    bool slice = false;
    for (parts.push_back(is_symbol(":") ? nullptr : tuple()); accept_symbol(":");) {
      slice = true;
      parts.push_back(is_symbol(":") || is_symbol("]") ? nullptr : expression());
    }
    expect_symbol("]");
    require(parts.size() <= 3, "line {}: a slice has at most three parts", result->line);
    if (slice) result->kind = Kind::kSlice, parts.resize(3);
    for (auto& part : parts) add(*result, std::move(part));
    return result;
  }

  void arguments(Expression& call) {
    expect_symbol("(");
    bool spread = false;  // only arguments by name may follow *, and none **
    while (!accept_symbol(")")) {
      require(call.named.empty() || call.named.back().first != "**", "line {}: an argument follows **", peek().line);
      require(!spread || is_symbol("**") || peek(1).text == "=", "line {}: an argument without a name follows *",
              peek().line);
      if (accept_symbol("**")) {
        call.named.emplace_back("**", expression());
        call.depth = std::max(call.depth, call.named.back().second->depth + 1);
      } else if (accept_symbol("*")) {
        spread = true;
        add(call, make(Kind::kSpread, expression()));
      } else if (peek().kind == Lexeme::kName && peek(1).kind == Lexeme::kSymbol && peek(1).text == "=") {
        std::string argument = take().text;
        take();
        auto value = expression();
        call.depth = std::max(call.depth, value->depth + 1);
        call.named.emplace_back(std::move(argument), std::move(value));
      } else {
        require(call.named.empty(), "line {}: an argument without a name follows one with", peek().line);
        add(call, expression());
      }
      if (!is_symbol(")")) expect_symbol(",");
    }
  }

  std::string dotted_name() {
    std::string result = name();
    while (accept_symbol(".")) result += "." + name();
    return result;
  }

  ExpressionPointer filters(ExpressionPointer value, bool begun = false) {
    while (true) {
      if (begun || accept_symbol("|")) {
        auto filter = make(Kind::kFilter);
        add(*filter, std::move(value));
        filter->name = dotted_name();
        if (is_symbol("(")) arguments(*filter);
        value = std::move(filter);
        begun = false;
      } else if (value && accept_name("is")) {
        const bool negated = accept_name("not");
        value = make(Kind::kTest, std::move(value));
        value->name = dotted_name();
        if (is_symbol("(")) arguments(*value);
        else if (begins_argument()) add(*value, postfix(primary()));
        if (negated) value = make(Kind::kNot, std::move(value));
      } else if (value && is_symbol("(")) {
        value = make(Kind::kCall, std::move(value));
        arguments(*value);
      } else {
        return value;
      }
    }
  }

  bool begins_argument() const {
    if (peek().kind == Lexeme::kName) {
      constexpr std::string_view kOthers[] = {"else", "or", "and", "is", "if", "in", "not"};
      return std::find(std::begin(kOthers), std::end(kOthers), peek().text) == std::end(kOthers);
    }
    return peek().kind == Lexeme::kString || peek().kind == Lexeme::kInteger || peek().kind == Lexeme::kFloat ||
           is_symbol("(") || is_symbol("[") || is_symbol("{");
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string ended_;
  std::set<std::string> blocks_;
};

}  // namespace

Body parse_template(std::string_view source) { return Parser(source).run(); }

}  // namespace transom::jinja
