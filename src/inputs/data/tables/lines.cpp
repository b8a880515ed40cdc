// SPDX-License-Identifier: Apache-2.0
// Plain text: a row a line, in the column `text`, without its end or with \n. Blank lines are rows too.
#include "inputs/data/tables/row_format.h"

namespace transom {
namespace {

class LinesFormat : public RowFormat {
 public:
  LinesFormat(std::string name, std::string_view text, bool keep_linebreaks)
      : name_(std::move(name)), text_(text), keep_linebreaks_(keep_linebreaks) {}
  size_t start() const override { return skip_byte_order_mark(name_, text_); }
  std::vector<std::string> columns() const override { return {"text"}; }
  bool read(size_t& position, int64_t number, std::vector<std::string>&, Row& row) const override {
    if (position >= text_.size()) return false;
    const std::string_view line = take_line(text_, position);
    check_utf8(line, name_, number);
    const bool ends = keep_linebreaks_ && text_[position - 1] == '\n';
    row.assign(1, ends ? std::string(line) + "\n" : std::string(line));
    return true;
  }

 private:
  std::string name_;
  std::string_view text_;
  bool keep_linebreaks_;
};

}  // namespace

std::unique_ptr<RowFormat> lines_format(std::string name, std::string_view text, bool keep_linebreaks) {
  return std::make_unique<LinesFormat>(std::move(name), text, keep_linebreaks);
}

}  // namespace transom
