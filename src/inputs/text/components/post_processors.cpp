// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "inputs/text/components/components.h"
#include "inputs/text/components/fields.h"
#include "inputs/text/components/trim_offsets.h"
#include "inputs/text/encoding.h"

namespace transom::text {
namespace {

void set_type(Encoding& encoding, int64_t type_id) {
  std::fill(encoding.type_ids.begin(), encoding.type_ids.end(), type_id);
  for (Encoding& part : encoding.overflowing) set_type(part, type_id);
}

// One item of a template: a sequence, or special tokens.
struct TemplateItem {
  int sequence = -1;  // 0 or 1; -1: the tokens
  int64_t type_id = 0;
  std::vector<int64_t> ids;
  std::vector<std::string> tokens;
};
using Template = std::vector<TemplateItem>;

class TemplateProcessing : public PostProcessor {
 public:
  TemplateProcessing(Template single, Template pair) : single_(std::move(single)), pair_(std::move(pair)) {}

  size_t added_tokens(bool pair) const override {
    size_t count = 0;
    for (const TemplateItem& item : pair ? pair_ : single_) count += item.ids.size();
    return count;
  }

  void apply(std::vector<Encoding>& parts, bool add_special_tokens) const override {
    std::vector<Encoding> result;
    for (const TemplateItem& item : parts.size() > 1 ? pair_ : single_) {
      if (item.sequence >= 0) {
        if (static_cast<size_t>(item.sequence) >= parts.size()) continue;
        Encoding part = parts[static_cast<size_t>(item.sequence)];
        set_type(part, item.type_id);
        result.push_back(std::move(part));
      } else if (add_special_tokens) {
        Encoding special;
        for (size_t i = 0; i < item.ids.size(); ++i) append_special(special, item.ids[i], item.tokens[i], item.type_id);
        result.push_back(std::move(special));
      }
    }
    parts = std::move(result);
  }

 private:
  Template single_, pair_;
};

class RobertaProcessing : public TemplateProcessing {
 public:
  RobertaProcessing(Template single, Template pair, bool trim, bool prefix_space)
      : TemplateProcessing(std::move(single), std::move(pair)), trim_(trim), prefix_space_(prefix_space) {}
  void apply(std::vector<Encoding>& parts, bool add_special_tokens) const override {
    if (trim_) {
      for (Encoding& part : parts) trim_offsets(part, prefix_space_);
    }
    TemplateProcessing::apply(parts, add_special_tokens);
  }

 private:
  bool trim_, prefix_space_;
};

class ByteLevelProcessing : public PostProcessor {
 public:
  ByteLevelProcessing(bool trim, bool prefix_space) : trim_(trim), prefix_space_(prefix_space) {}
  size_t added_tokens(bool) const override { return 0; }
  void apply(std::vector<Encoding>& parts, bool) const override {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (trim_) trim_offsets(parts[i], prefix_space_);
    }
  }

 private:
  bool trim_, prefix_space_;
};

class PostProcessorSequence : public PostProcessor {
 public:
  explicit PostProcessorSequence(std::vector<std::unique_ptr<PostProcessor>> parts) : parts_(std::move(parts)) {}
  size_t added_tokens(bool pair) const override {
    size_t count = 0;
    for (const auto& part : parts_) count += part->added_tokens(pair);
    return count;
  }
  void apply(std::vector<Encoding>& encodings, bool add_special_tokens) const override {
    for (const auto& part : parts_) part->apply(encodings, add_special_tokens);
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> parts_;
};

TemplateItem sequence(int number, int64_t type_id) { return {number, type_id, {}, {}}; }

int64_t type_field(const Json& json, const std::string& where) {
  const int64_t type = integer_field(json, "type_id", where, 0);
  require(type >= 0 && type < 65536, "{}.type_id: expected 0 to 65535, found {}", where, type);
  return type;
}

Template read_template(const Json& json, const char* key, const Json& special_tokens, const std::string& where) {
  Template result;
  const std::string at = where + "." + key;
  for (const Json& item : array_field(json, key, where)) {
    if (const Json& part = field(item, "Sequence", at); !part.is_null()) {
      const std::string id = string_field(part, "id", at);
      require(id == "A" || id == "B", "{}: expected sequence A or B, found {}", at, quoted(id));
      result.push_back(sequence(id == "A" ? 0 : 1, type_field(part, at)));
      continue;
    }
    const Json& part = field(item, "SpecialToken", at);
    const std::string id = string_field(part, "id", at);
    const Json& special = field(special_tokens, id, where + ".special_tokens");
    require(special.is_object(), "{}: the special token {} is not in special_tokens", at, quoted(id));
    TemplateItem tokens{-1, type_field(part, at), {}, {}};
    for (const Json& number : array_field(special, "ids", at)) {
      require(number.is_number_integer(), "{}: expected integer ids for {}", at, quoted(id));
      tokens.ids.push_back(number.get<int64_t>());
    }
    for (const Json& text : array_field(special, "tokens", at)) {
      require(text.is_string(), "{}: expected texts for {}", at, quoted(id));
      tokens.tokens.push_back(text.get<std::string>());
    }
    require(tokens.ids.size() == tokens.tokens.size(), "{}: {} has {} ids and {} tokens", at, quoted(id),
            tokens.ids.size(), tokens.tokens.size());
    result.push_back(std::move(tokens));
  }
  const auto sequences =
      std::count_if(result.begin(), result.end(), [](const auto& item) { return item.sequence >= 0; });
  require(sequences <= 16, "{}: expected at most 16 sequences, found {}", at, sequences);
  return result;
}

// ["[SEP]", 3]
TemplateItem token_field(const Json& json, const char* key, const std::string& where, int64_t type_id) {
  const Json& value = array_field(json, key, where);
  require(value.size() == 2 && value[0].is_string() && value[1].is_number_integer(), "{}.{}: expected [token, id]",
          where, key);
  return {-1, type_id, {value[1].get<int64_t>()}, {value[0].get<std::string>()}};
}

}  // namespace

std::unique_ptr<PostProcessor> make_post_processor(const Json& json, const std::string& where, int depth) {
  if (json.is_null()) return nullptr;
  const std::string type = component_type(json, where, depth);
  if (type == "TemplateProcessing") {
    const Json& special = field(json, "special_tokens", where);
    return std::make_unique<TemplateProcessing>(read_template(json, "single", special, where),
                                                read_template(json, "pair", special, where));
  }
  if (type == "BertProcessing") {
    const TemplateItem cls = token_field(json, "cls", where, 0), sep = token_field(json, "sep", where, 0);
    return std::make_unique<TemplateProcessing>(
        Template{cls, sequence(0, 0), sep},
        Template{cls, sequence(0, 0), sep, sequence(1, 1), token_field(json, "sep", where, 1)});
  }
  const bool trim = bool_field(json, "trim_offsets", where, true);
  const bool prefix_space = bool_field(json, "add_prefix_space", where, true);
  if (type == "RobertaProcessing") {
    const TemplateItem cls = token_field(json, "cls", where, 0), sep = token_field(json, "sep", where, 0);
    return std::make_unique<RobertaProcessing>(Template{cls, sequence(0, 0), sep},
                                               Template{cls, sequence(0, 0), sep, sep, sequence(1, 0), sep}, trim,
                                               prefix_space);
  }
  if (type == "ByteLevel") return std::make_unique<ByteLevelProcessing>(trim, prefix_space);
  if (type == "Sequence") {
    std::vector<std::unique_ptr<PostProcessor>> parts;
    bool framed = false;
    for (const Json& part : array_field(json, "processors", where)) {
      auto made = make_post_processor(part, where + ".processors", depth + 1);
      if (!made) continue;
      require(
          !framed || made->added_tokens(true) == 0,
          "{}.processors: expected one that adds special tokens, found two, the second around the parts of the first",
          where);
      framed = framed || made->added_tokens(true) > 0;
      parts.push_back(std::move(made));
    }
    return std::make_unique<PostProcessorSequence>(std::move(parts));
  }
  fail(
      "{}: the post-processor {} is not known; known are TemplateProcessing, BertProcessing, RobertaProcessing, "
      "ByteLevel and "
      "Sequence",
      where, quoted(type));
}

}  // namespace transom::text
