// SPDX-License-Identifier: Apache-2.0
// Labels of tokens, joined to entities by an aggregation strategy.
#include <algorithm>

#include "base/error.h"
#include "inputs/data/text/qa_postprocess.h"
#include "inputs/text/unicode/clean_up.h"
#include "work/pipelines/pipeline.h"
#include "work/pipelines/text/text_model.h"

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
  Model* model() const override { return model_.model.get(); }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const std::string strategy = text_option(options, "aggregation_strategy",
                                             flag_option(options, "grouped_entities", false) ? "simple" : "none");
    std::vector<TaggedText> texts(inputs.size());
    const auto encode = [&](size_t i) {
      if (const WordsInput* words = std::get_if<WordsInput>(&inputs[i]))
        return encode_words(words->words, options, texts[i]);
      return encode_text(text_input(inputs[i]).text, strategy, options, texts[i]);
    };
    const auto windows =
        model_.rows(inputs.size(), encode, {"logits"}, TextModel::Unit::kToken, batch_size_of(options));
    const std::vector<std::string> ignored =
        texts_option(options, "ignore_labels").value_or(std::vector<std::string>{"O"});
    std::vector<TaskResult> results;
    for (size_t i = 0; i < texts.size(); ++i) {
      std::vector<NamedEntity> entities;
      for (const TextModel::Row& window : windows[i])
        for (NamedEntity& entity : entities_of(tagged(texts[i], window.encoding, window.outputs[0]), strategy))
          if (std::find(ignored.begin(), ignored.end(), entity.label) == ignored.end())
            entities.push_back(std::move(entity));
      results.emplace_back(windows[i].size() > 1 ? without_overlaps(std::move(entities)) : std::move(entities));
    }
    return results;
  }

 private:
  std::string label_of(size_t label) const {
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

  // In windows, where the text is long.
  std::vector<Encoding> encode_text(const std::string& text, const std::string& strategy, const TaskOptions& options,
                                    TaggedText& tagged) const {
    EncodeOptions encoding{.truncation = Truncation::kLongestFirst, .max_length = model_.max_length()};
    refuse_without_effect(options, {"delimiter"}, "without is_split_into_words");
    tagged.text = text;
    if (!is_given(options, "stride"))
      return {model_.first_part(tagged.text, std::nullopt, encoding,
                                "; stride with an aggregation_strategy reads all of it")};
    if (strategy == "none") fail("stride needs an aggregation_strategy other than none");
    encoding.stride = int_option(options, "stride", 0);
    encoding.return_overflowing_tokens = true;
    return windows_of(model_.tokenizer.encode(tagged.text, std::nullopt, encoding));
  }

  std::vector<Encoding> encode_words(const std::vector<std::string>& words, const TaskOptions& options,
                                     TaggedText& tagged) const {
    const std::string delimiter = text_option(options, "delimiter", " ");
    int64_t place = 0;
    for (const std::string& word : words) {
      if (!tagged.word_begins.empty()) tagged.text += delimiter, place += count_characters(delimiter);
      tagged.word_begins.push_back(place);
      tagged.text += word, place += count_characters(word);
    }
    refuse_without_effect(options, {"stride"}, "on words: as in Transformers, the first part of a text is read");
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

  std::vector<NamedEntity> entities_of(const std::vector<TaggedToken>& tokens, const std::string& strategy) const {
    if (strategy == "simple") return groups_of(tokens, false);
    if (strategy != "none") return groups_of(words_of(tokens, strategy), true);
    std::vector<NamedEntity> entities;
    for (const TaggedToken& token : tokens)
      entities.push_back({.label = label_of(token.label),
                          .score = token.score,
                          .word = token.word,
                          .index = token.index,
                          .start = token.begin,
                          .end = token.end});
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
      // As WordPiece joins tokens: a mark of punctuation stands without a space before it.
      const size_t space = marks_subwords_ && at > 0 && text[at - 1] == ' ' ? 1 : 0;
      const std::string joined = space ? text::clean_up_spaces(" " + written) : written;
      text.replace(at - space, mark.size() + space, joined);
      at += joined.size() - space;
    }
    return text;
  }

  // "B-LOC" begins an entity of its own; "I-LOC", or a label without a prefix, goes on with one of its kind. Of words,
  // unless their tokens tell where they end, the texts come one behind the other.
  std::vector<NamedEntity> groups_of(const std::vector<TaggedToken>& tokens, bool words) const {
    std::vector<NamedEntity> groups;
    const auto kind = [&](size_t label) {
      const std::string name = label_of(label);
      return name.starts_with("B-") || name.starts_with("I-") ? name.substr(2) : name;
    };
    for (size_t begin = 0; begin < tokens.size();) {
      size_t end = begin + 1;
      while (end < tokens.size() && kind(tokens[end].label) == kind(tokens[end - 1].label) &&
             !label_of(tokens[end].label).starts_with("B-"))
        ++end;
      double score = 0;
      TaggedToken all;
      std::string text;
      for (size_t i = begin; i < end; ++i) {
        score += tokens[i].score / static_cast<double>(end - begin);
        append(all, tokens[i]);
        if (words && !marks_subwords_) text += text_of(tokens[i]);
      }
      const std::string name = label_of(tokens[begin].label);
      const size_t dash = name.find('-');
      groups.push_back({.label = dash == name.npos ? name : name.substr(dash + 1),
                        .score = score,
                        .word = words && !marks_subwords_ ? text : text_of(all),
                        .start = tokens[begin].begin,
                        .end = tokens[end - 1].end});
      begin = end;
    }
    return groups;
  }

  // Of entities of several windows that overlap the longest, and of those the most certain.
  static std::vector<NamedEntity> without_overlaps(std::vector<NamedEntity> entities) {
    std::stable_sort(entities.begin(), entities.end(),
                     [](const NamedEntity& a, const NamedEntity& b) { return a.start < b.start; });
    const auto length = [](const NamedEntity& entity) { return entity.end - entity.start; };
    std::vector<NamedEntity> result;
    for (NamedEntity& entity : entities) {
      if (result.empty() || entity.start >= result.back().end) result.push_back(std::move(entity));
      else if (length(entity) > length(result.back()) ||
               (length(entity) == length(result.back()) && entity.score > result.back().score))
        result.back() = std::move(entity);
    }
    return result;
  }

  TextModel model_;
  std::vector<std::string> labels_;
  bool marks_subwords_;
};

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

constexpr TaskRecord kTokenClassification{.name = "token-classification",
                                          .alias = "ner",
                                          .example = "--aggregation_strategy simple \"Ann went to Rome.\"",
                                          .result = ResultKind::kEntities,
                                          .parameters = token_classification_parameters,
                                          .load = load_text_task<TokenClassification>};
const RegisterTask kRegisterTokenClassification(kTokenClassification);

}  // namespace
}  // namespace transom
