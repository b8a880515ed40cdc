// SPDX-License-Identifier: Apache-2.0
// Labels of tokens, joined to entities by an aggregation strategy.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json/json.h"
#include "data/qa_postprocess.h"
#include "pipelines/pipeline.h"
#include "pipelines/text/text_model.h"

namespace transom {
namespace {

struct TaggedToken {
  std::vector<double> scores;  // one a label
  size_t label = 0;
  double score = 0;
  int64_t index = 0, begin = 0, end = 0;
  std::vector<int64_t> ids;
  std::vector<std::string> unknown;  // what stands in the text where an id is that of unknown words
  std::string word;
  bool continues = false;  // the word before

  void choose(std::vector<double> of) {
    scores = std::move(of);
    label = static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    score = scores[label];
  }
};

// A text as it is tagged.
struct TaggedText {
  std::string text;
  std::vector<int64_t> word_begins;  // of words that came cut already: where each stands in `text`
};

class TokenClassification : public Pipeline {
 public:
  explicit TokenClassification(TextModel model)
      : model_(std::move(model)), labels_(model_.model->labels()), marks_subwords_(marks_subwords(model_.tokenizer)) {}
  TaskParameters parameters() const override { return token_classification_parameters(); }
  Model* model() const override { return model_.model.get(); }

  Json run(const Json& input, const Json& parameters) const override {
    if (input.is_string() && bool_parameter(parameters, "is_split_into_words", false)) expect_words(input);
    return run_all({input}, parameters)[0];
  }

  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    const std::string strategy = string_parameter(
        parameters, "aggregation_strategy", bool_parameter(parameters, "grouped_entities", false) ? "simple" : "none");
    // A list of strings is one text then.
    const bool split = bool_parameter(parameters, "is_split_into_words", false);
    const bool one = split && !inputs.empty() && inputs[0].is_string();
    const std::vector<Json> whole = one ? std::vector<Json>{Json(inputs)} : inputs;
    std::vector<TaggedText> texts(whole.size());
    const auto encode = [&](size_t i) {
      return split ? encode_words(whole[i], parameters, texts[i])
                   : encode_text(whole[i], strategy, parameters, texts[i]);
    };
    const auto windows =
        model_.rows(whole.size(), encode, {"logits"}, TextModel::Unit::kToken, batch_size_of(parameters));
    const std::set<std::string> ignored = ignored_labels(parameters);
    std::vector<Json> results;
    for (size_t i = 0; i < texts.size(); ++i) {
      std::vector<Json> entities;
      for (const TextModel::Row& window : windows[i])
        for (Json& entity : entities_of(tagged(texts[i], window.encoding, window.outputs[0]), strategy))
          if (!ignored.contains(entity[strategy == "none" ? "entity" : "entity_group"].get<std::string>()))
            entities.push_back(std::move(entity));
      results.emplace_back(windows[i].size() > 1 ? without_overlaps(std::move(entities)) : std::move(entities));
    }
    return results;
  }

 private:
  std::string name_of(size_t label) const {
    return label < labels_.size() ? labels_[label] : "LABEL_" + std::to_string(label);
  }

  // Whether tokens within a word say so ("##ing"), as those of WordPiece do. A byte-pair vocabulary may hold the same
  // marks as text.
  static bool marks_subwords(const Tokenizer& tokenizer) {
    for (int64_t id = 0; id < tokenizer.vocab_size(); ++id)
      if (const auto token = tokenizer.id_to_token(id); token && token->size() > 2 && token->starts_with("##"))
        return tokenizer.decode({id, id}, false, false) == *token + token->substr(2);
    return false;
  }

  static std::set<std::string> ignored_labels(const Json& parameters) {
    if (!parameters.contains("ignore_labels")) return {"O"};
    if (!parameters["ignore_labels"].is_array()) fail("ignore_labels: expected a list of labels");
    std::set<std::string> result;
    for (const Json& label : parameters["ignore_labels"])
      if (label.is_string()) result.insert(label.get<std::string>());
    return result;
  }

  // In windows, where the text is long.
  std::vector<Encoding> encode_text(const Json& input, const std::string& strategy, const Json& parameters,
                                    TaggedText& tagged) const {
    EncodeOptions options{.truncation = Truncation::kLongestFirst, .max_length = model_.max_length()};
    refuse_without_effect(parameters, {"delimiter"}, "without is_split_into_words");
    tagged.text = text_input(input);
    if (parameters.value("stride", Json()).is_null())
      return {model_.first_part(tagged.text, std::nullopt, options,
                                "; stride with an aggregation_strategy reads all of it")};
    if (strategy == "none") fail("stride needs an aggregation_strategy other than none");
    options.stride = int_parameter(parameters, "stride", 0);
    options.return_overflowing_tokens = true;
    return windows_of(model_.tokenizer.encode(tagged.text, std::nullopt, options));
  }

  static void expect_words(const Json& input) {
    const auto is_text = [](const Json& word) { return word.is_string(); };
    if (!input.is_array() || !std::all_of(input.begin(), input.end(), is_text))
      fail("is_split_into_words: expected a list of words, found {}", quoted(dump_json(input)));
  }

  std::vector<Encoding> encode_words(const Json& input, const Json& parameters, TaggedText& tagged) const {
    const std::string delimiter = string_parameter(parameters, "delimiter", " ");
    std::vector<std::string> words;
    int64_t place = 0;
    expect_words(input);
    for (const Json& word : input) {
      if (!words.empty()) tagged.text += delimiter, place += count_characters(delimiter);
      words.push_back(word.get<std::string>());
      tagged.word_begins.push_back(place);
      tagged.text += words.back(), place += count_characters(words.back());
    }
    refuse_without_effect(parameters, {"stride"}, "on words: as in Transformers, the first part of a text is read");
    std::vector<Encoding> encodings{model_.tokenizer.encode_words(words, {.truncation = Truncation::kLongestFirst,
                                                                          .max_length = model_.max_length(),
                                                                          .return_overflowing_tokens = true})};
    model_.warn_of_rest(encodings[0], "");
    return encodings;
  }

  std::vector<TaggedToken> tagged(const TaggedText& text, const Encoding& encoding,
                                  const std::vector<float>& logits) const {  // [T, labels]
    const auto classes = static_cast<ptrdiff_t>(logits.size() / std::max<size_t>(1, encoding.size()));
    const auto unknown = model_.tokenizer.special_token_id("unk");
    std::vector<TaggedToken> tokens;
    for (size_t i = 0; i < encoding.size(); ++i) {
      if (encoding.special_tokens_mask[i]) continue;
      const auto row = logits.begin() + static_cast<ptrdiff_t>(i) * classes;
      const size_t word = static_cast<size_t>(encoding.word_ids[i]);
      const int64_t shift = word < text.word_begins.size() ? text.word_begins[word] : 0;
      TaggedToken token{.index = static_cast<int64_t>(i),
                        .begin = encoding.offsets[i].first + shift,
                        .end = encoding.offsets[i].second + shift,
                        .ids = {encoding.ids[i]},
                        .word = encoding.tokens[i]};
      token.choose(softmax_of(std::vector<float>(row, row + classes)));
      const std::string original(characters(text.text, {token.begin, token.end}));
      if (unknown && encoding.ids[i] == *unknown) {
        token.word = original;
        token.unknown = {original};
      } else if (marks_subwords_) {
        token.continues = count_characters(token.word) != count_characters(original);
      } else {  // a token that no space stands before
        token.continues = token.begin > 0 &&
                          characters(text.text, {token.begin - 1, token.begin + 1}).find(' ') == std::string_view::npos;
      }
      tokens.push_back(std::move(token));
    }
    return tokens;
  }

  std::vector<Json> entities_of(std::vector<TaggedToken> tokens, const std::string& strategy) const {
    if (strategy == "simple") return groups_of(tokens, false);
    if (strategy != "none") return groups_of(words_of(tokens, strategy), true);
    std::vector<Json> entities;
    for (const TaggedToken& token : tokens)
      entities.push_back({{"entity", name_of(token.label)},
                          {"score", token.score},
                          {"index", token.index},
                          {"word", token.word},
                          {"start", token.begin},
                          {"end", token.end}});
    return entities;
  }

  // Tokens of one word become one, with the scores of the first, of the most certain, or their mean.
  std::vector<TaggedToken> words_of(const std::vector<TaggedToken>& tokens, const std::string& strategy) const {
    if (strategy != "first" && strategy != "max" && strategy != "average")
      fail("aggregation_strategy: expected none, simple, first, max or average, found {}", quoted(strategy));
    std::vector<TaggedToken> words;
    for (size_t begin = 0; begin < tokens.size();) {
      size_t end = begin + 1;
      while (end < tokens.size() && tokens[end].continues) ++end;
      TaggedToken word = tokens[begin];
      word.end = tokens[end - 1].end;
      std::vector<double> mean(word.scores.size(), 0);
      for (size_t i = begin; i < end; ++i) {
        if (i > begin) append(word, tokens[i]);
        for (size_t k = 0; k < mean.size(); ++k) mean[k] += tokens[i].scores[k] / static_cast<double>(end - begin);
        if (strategy == "max" && tokens[i].score > word.score) word.choose(tokens[i].scores);
      }
      if (strategy == "average") word.choose(mean);
      words.push_back(std::move(word));
      begin = end;
    }
    return words;
  }

  static void append(TaggedToken& token, const TaggedToken& next) {
    token.ids.insert(token.ids.end(), next.ids.begin(), next.ids.end());
    token.unknown.insert(token.unknown.end(), next.unknown.begin(), next.unknown.end());
  }

  // The text of tokens; unknown ones are as they were written.
  std::string text_of(const TaggedToken& token) const {
    std::string text = model_.tokenizer.decode(token.ids, false, false);
    const std::string mark = model_.tokenizer.special_token("unk").value_or("");
    size_t at = 0;
    for (const std::string& written : token.unknown) {
      if (mark.empty() || (at = text.find(mark, at)) == text.npos) break;
      text.replace(at, mark.size(), written);
      at += written.size();
    }
    return text;
  }

  // "B-LOC" begins an entity of its own; "I-LOC", or a label without a prefix, goes on with one of its kind. Of words,
  // unless their tokens tell where they end, the texts come one behind the other.
  std::vector<Json> groups_of(const std::vector<TaggedToken>& tokens, bool words) const {
    std::vector<Json> groups;
    const auto kind = [&](size_t label) {
      const std::string name = name_of(label);
      return name.starts_with("B-") || name.starts_with("I-") ? name.substr(2) : name;
    };
    for (size_t begin = 0; begin < tokens.size();) {
      size_t end = begin + 1;
      while (end < tokens.size() && kind(tokens[end].label) == kind(tokens[end - 1].label) &&
             !name_of(tokens[end].label).starts_with("B-"))
        ++end;
      double score = 0;
      TaggedToken all;
      std::string text;
      for (size_t i = begin; i < end; ++i) {
        score += tokens[i].score / static_cast<double>(end - begin);
        append(all, tokens[i]);
        if (words && !marks_subwords_) text += text_of(tokens[i]);
      }
      const std::string name = name_of(tokens[begin].label);
      const size_t dash = name.find('-');
      groups.push_back({{"entity_group", dash == name.npos ? name : name.substr(dash + 1)},
                        {"score", score},
                        {"word", words && !marks_subwords_ ? text : text_of(all)},
                        {"start", tokens[begin].begin},
                        {"end", tokens[end - 1].end}});
      begin = end;
    }
    return groups;
  }

  // Of entities of several windows that overlap the longest, and of those the most certain.
  static std::vector<Json> without_overlaps(std::vector<Json> entities) {
    std::stable_sort(entities.begin(), entities.end(), [](const Json& a, const Json& b) {
      return a["start"].get<int64_t>() < b["start"].get<int64_t>();
    });
    const auto length = [](const Json& e) { return e["end"].get<int64_t>() - e["start"].get<int64_t>(); };
    std::vector<Json> result;
    for (Json& entity : entities) {
      if (result.empty() || entity["start"].get<int64_t>() >= result.back()["end"].get<int64_t>())
        result.push_back(std::move(entity));
      else if (length(entity) > length(result.back()) ||
               (length(entity) == length(result.back()) &&
                entity["score"].get<double>() > result.back()["score"].get<double>()))
        result.back() = std::move(entity);
    }
    return result;
  }

  TextModel model_;
  std::vector<std::string> labels_;
  bool marks_subwords_;
};

}  // namespace

TaskParameters token_classification_parameters() {
  return {
      {"aggregation_strategy",
       TaskParameter::Type::kText,
       "how tokens are joined to entities",
       "none",
       {"none", "simple", "first", "max", "average"}},
      {"ignore_labels", TaskParameter::Type::kTexts, "labels that are left out", "O"},
      {"grouped_entities", TaskParameter::Type::kFlag, "the old name of --aggregation_strategy simple", "false"},
      {"stride", TaskParameter::Type::kInteger, "tokens that two windows of a long text share"},
      {"is_split_into_words", TaskParameter::Type::kFlag, "inputs are lists of words", "false"},
      {"delimiter", TaskParameter::Type::kText, "what joins the words of such a list"},
  };
}

std::unique_ptr<Pipeline> make_token_classification(TextModel model) {
  return std::make_unique<TokenClassification>(std::move(model));
}

}  // namespace transom
