// SPDX-License-Identifier: Apache-2.0
// Post-processors put special tokens around the text and its pair.
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "text/components.h"

namespace transom::text {
namespace {

struct SpecialToken {
  std::vector<int64_t> ids;
  std::vector<std::string> tokens;
};

// What stands at one place of a template: a special token, or the text (0) or its pair (1).
struct Place {
  const SpecialToken* special = nullptr;
  int sequence = 0;
  int64_t type_id = 0;
};

class Template : public PostProcessor {
 public:
  Template(const Json& json, const std::string& where) {
    const Json special = json.value("special_tokens", Json::object());
    for (const auto& [name, value] : special.items()) {
      SpecialToken& token = special_[name];
      if (!value.is_object() || !value.contains("ids") || !value["ids"].is_array())
        fail("{}: special token {} of the template has no ids", where, transom::quoted(name));
      for (const Json& id : value["ids"]) {
        if (!id.is_number_integer())
          fail("{}: special token {} of the template has no usable id", where, transom::quoted(name));
        token.ids.push_back(id.get<int64_t>());
      }
      const Json tokens = value.value("tokens", Json::array());
      for (size_t i = 0; i < token.ids.size(); ++i)
        token.tokens.push_back(i < tokens.size() && tokens[i].is_string() ? tokens[i].get<std::string>() : name);
    }
    single_ = places(json.value("single", Json()), where);
    pair_ = places(json.value("pair", Json()), where);
  }

  // [CLS] A [SEP] and [CLS] A [SEP] B [SEP], or with two separators between (RoBERTa).
  Template(const Json& cls, const Json& sep, bool roberta, const std::string& where) {
    special_["cls"] = token(cls, where);
    special_["sep"] = token(sep, where);
    const Place begin{&special_["cls"]}, end{&special_["sep"]};
    single_ = {begin, {nullptr, 0, 0}, end};
    roberta_ = roberta;
    const int64_t second = roberta ? 0 : 1;
    pair_ = {begin, {nullptr, 0, 0}, end};
    if (roberta) pair_.push_back(end);
    pair_.push_back({nullptr, 1, second});
    pair_.push_back({&special_["sep"], 0, second});
  }

  size_t added_tokens(bool pair) const override {
    size_t count = 0;
    for (const Place& place : pair ? pair_ : single_)
      if (place.special) count += place.special->ids.size();
    return count;
  }

  int64_t pair_type_id() const override { return roberta_ ? 0 : 1; }

  Encoding process(const Encoding& text, const Encoding* pair) const override {
    Encoding result;
    for (const Place& place : pair ? pair_ : single_) {
      if (!place.special) {
        if (place.sequence == 0) append_sequence(result, text, place.type_id, 0);
        else if (pair) append_sequence(result, *pair, place.type_id, 1);
        continue;
      }
      for (size_t i = 0; i < place.special->ids.size(); ++i)
        append_special(result, place.special->ids[i], place.special->tokens[i], place.type_id);
    }
    return result;
  }

 private:
  static SpecialToken token(const Json& json, const std::string& where) {
    if (!json.is_array() || json.size() != 2 || !json[0].is_string() || !json[1].is_number_integer())
      fail("{}: post_processor: expected a token and its id", where);
    return {{json[1].get<int64_t>()}, {json[0].get<std::string>()}};
  }

  std::vector<Place> places(const Json& json, const std::string& where) const {
    std::vector<Place> result;
    if (!json.is_array()) return result;
    for (const Json& item : json) {
      Place place;
      const bool special = item.is_object() && item.contains("SpecialToken");
      const Json& body = special                                         ? item["SpecialToken"]
                         : item.is_object() && item.contains("Sequence") ? item["Sequence"]
                                                                         : item;
      if (!body.is_object() || !body.contains("id") || !body["id"].is_string())
        fail("{}: a template holds neither a Sequence nor a SpecialToken", where);
      const std::string id = body["id"].get<std::string>();
      if (body.contains("type_id") && body["type_id"].is_number_integer())
        place.type_id = body["type_id"].get<int64_t>();
      if (special) {
        const auto found = special_.find(id);
        if (found == special_.end())
          fail("{}: a template names the special token {}, which is not among its special_tokens", where,
               transom::quoted(id));
        place.special = &found->second;
      } else if (id != "A" && id != "B")
        fail("{}: a template names the sequence {}; expected A or B", where, transom::quoted(id));
      place.sequence = id == "B";
      result.push_back(place);
    }
    return result;
  }

  std::map<std::string, SpecialToken> special_;
  std::vector<Place> single_, pair_;
  bool roberta_ = false;
};

}  // namespace

std::unique_ptr<PostProcessor> parse_post_processor(const Json& json, const std::string& where) {
  if (json.is_null()) return nullptr;
  const std::string type = component_type(json, where);
  if (type == "TemplateProcessing") return std::make_unique<Template>(json, where);
  if (type == "BertProcessing")
    return std::make_unique<Template>(json.value("cls", Json()), json.value("sep", Json()), false, where);
  if (type == "RobertaProcessing")
    return std::make_unique<Template>(json.value("cls", Json()), json.value("sep", Json()), true, where);
  unknown_component("post_processor", type, {"BertProcessing", "RobertaProcessing", "TemplateProcessing"}, where);
}

}  // namespace transom::text
