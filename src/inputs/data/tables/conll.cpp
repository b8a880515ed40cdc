// SPDX-License-Identifier: Apache-2.0
// CoNLL: one token a line, its tags in further columns, a blank line between sentences; -DOCSTART- lines are skipped. A
// row is a sentence: the lists `tokens` and `ner_tags` (the last column), and `pos_tags`, `chunk_tags` where there are
// four.
#include "base/error.h"
#include "inputs/data/tables/row_format.h"

namespace transom {
namespace {

constexpr std::string_view kBlank = " \t";

std::vector<std::string_view> split_at_blanks(std::string_view line) {
  std::vector<std::string_view> fields;
  if (line.find('\t') != line.npos) {  // tabs: a token may hold spaces
    for (size_t start = 0;;) {
      const size_t end = line.find('\t', start);
      fields.push_back(line.substr(start, end - start));
      if (end == line.npos) return fields;
      start = end + 1;
    }
  }
  for (size_t start = line.find_first_not_of(kBlank); start != line.npos;) {
    const size_t end = line.find_first_of(kBlank, start);
    fields.push_back(line.substr(start, end - start));
    start = line.find_first_not_of(kBlank, end);
  }
  return fields;
}

// Some published files have a byte order mark inside, where they were joined from others.
std::string_view next_line(std::string_view text, size_t& position) {
  const std::string_view line = take_line(text, position);
  return line.starts_with("\xEF\xBB\xBF") ? line.substr(3) : line;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(kBlank) == line.npos; }

class ConllFormat : public RowFormat {
 public:
  ConllFormat(std::string name, std::string_view text) : name_(std::move(name)), text_(text) {
    start_ = skip_byte_order_mark(name_, text_);
    for (size_t position = start_; position < text_.size() && names_.empty();) {
      const std::string_view line = next_line(text_, position);
      if (!is_blank(line) && !line.starts_with("-DOCSTART-")) name_columns(split_at_blanks(line).size());
    }
  }

  size_t start() const override { return start_; }
  std::vector<std::string> columns() const override { return names_; }

  bool read(size_t& position, int64_t number, std::vector<std::string>&, Row& row) const override {
    std::vector<std::vector<std::string>> lists(names_.size());
    bool found = false;
    while (position < text_.size()) {
      const size_t begin = position;
      const std::string_view line = next_line(text_, position);
      if (is_blank(line) || line.starts_with("-DOCSTART-")) {
        if (found) break;
        continue;
      }
      check_utf8(line, name_, number);
      const auto fields = split_at_blanks(line);
      if (fields.size() != names_.size())
        fail("{}: row {}, line {}: expected {} columns ({}), found {}: {}", name_, number, line_number(begin),
             names_.size(), fmt::join(names_, ", "), fields.size(), transom::quoted(line));
      for (size_t i = 0; i < fields.size(); ++i) lists[i].emplace_back(fields[i]);
      found = true;
    }
    row.assign(std::make_move_iterator(lists.begin()), std::make_move_iterator(lists.end()));
    return found;
  }

 private:
  void name_columns(size_t count) {
    check_column_count(count, name_);
    names_ = {"tokens"};
    if (count == 4) names_.insert(names_.end(), {"pos_tags", "chunk_tags"});
    while (names_.size() + 1 < count) names_.push_back(fmt::format("column_{}", names_.size() + 1));
    if (count > 1) names_.emplace_back("ner_tags");
  }

  int64_t line_number(size_t position) const {
    int64_t number = 1;
    for (const char c : text_.substr(0, position)) number += c == '\n';
    return number;
  }

  std::string name_;
  std::string_view text_;
  std::vector<std::string> names_;
  size_t start_ = 0;
};

}  // namespace

std::unique_ptr<RowFormat> conll_format(std::string name, std::string_view text) {
  return std::make_unique<ConllFormat>(std::move(name), text);
}

}  // namespace transom
