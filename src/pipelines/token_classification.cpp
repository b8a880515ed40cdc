// SPDX-License-Identifier: Apache-2.0
// Labels of tokens, joined to entities by an aggregation strategy.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "data/answers.h"
#include "pipelines/pipeline.h"

namespace transom {
namespace {

struct TaggedToken {
  std::vector<double> scores;  // one a label
  size_t label = 0;
  double score = 0;
  int64_t index = 0, begin = 0, end = 0;
  std::vector<int64_t> ids;
  std::string word;
  bool continues = false;  // the word before

  void choose(std::vector<double> of) {
    scores = std::move(of);
    label = static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    score = scores[label];
  }
};

class TokenClassification : public Pipeline {
 public:
  explicit TokenClassification(TextModel model) : model_(std::move(model)), labels_(model_.model->labels()) {}
  std::vector<std::string> parameter_names() const override {
    return {"aggregation_strategy", "ignore_labels", "grouped_entities"};
  }

  Json run(const Json& input, const Json& parameters) const override {
    const std::string strategy = string_parameter(
        parameters, "aggregation_strategy", bool_parameter(parameters, "grouped_entities", false) ? "simple" : "none");
    const std::string text = text_input(input);
    std::vector<TaggedToken> tokens = tag(text);
    const std::set<std::string> ignored = ignored_labels(parameters);
    Json result = Json::array();
    if (strategy == "none") {
      for (const TaggedToken& token : tokens)
        if (!ignored.contains(name_of(token.label)))
          result.push_back({{"entity", name_of(token.label)},
                            {"score", token.score},
                            {"index", token.index},
                            {"word", token.word},
                            {"start", token.begin},
                            {"end", token.end}});
      return result;
    }
    if (strategy != "simple") tokens = words_of(tokens, strategy);
    for (Json& group : groups_of(tokens))
      if (!ignored.contains(group["entity_group"].get<std::string>())) result.push_back(std::move(group));
    return result;
  }

 private:
  std::string name_of(size_t label) const {
    return label < labels_.size() ? labels_[label] : "LABEL_" + std::to_string(label);
  }

  static std::set<std::string> ignored_labels(const Json& parameters) {
    if (!parameters.contains("ignore_labels")) return {"O"};
    if (!parameters["ignore_labels"].is_array()) fail("ignore_labels: expected a list of labels");
    std::set<std::string> result;
    for (const Json& label : parameters["ignore_labels"])
      if (label.is_string()) result.insert(label.get<std::string>());
    return result;
  }

  std::vector<TaggedToken> tag(const std::string& text) const {
    const TextModel::Result result = model_(text);
    const Encoding& encoding = result.encoding;
    const Tensor& logits = result.outputs.at("logits");  // [1, T, labels]
    const std::vector<float> values = logits.to_vector<float>();
    const auto classes = static_cast<ptrdiff_t>(logits.dim(2));
    const auto unknown = model_.tokenizer.special_token_id("unk");
    std::vector<TaggedToken> tokens;
    for (size_t i = 0; i < encoding.size(); ++i) {
      if (encoding.special_tokens_mask[i]) continue;
      const auto row = values.begin() + static_cast<ptrdiff_t>(i) * classes;
      TaggedToken token{.index = static_cast<int64_t>(i),
                        .begin = encoding.offsets[i].first,
                        .end = encoding.offsets[i].second,
                        .ids = {encoding.ids[i]},
                        .word = encoding.tokens[i]};
      token.choose(softmax_of(std::vector<float>(row, row + classes)));
      const std::string_view original = characters(text, {token.begin, token.end});
      if (unknown && encoding.ids[i] == *unknown) token.word = original;
      else token.continues = count_characters(token.word) != count_characters(original);
      tokens.push_back(std::move(token));
    }
    return tokens;
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
        if (i > begin) word.ids.push_back(tokens[i].ids[0]);
        for (size_t k = 0; k < mean.size(); ++k) mean[k] += tokens[i].scores[k] / static_cast<double>(end - begin);
        if (strategy == "max" && tokens[i].score > word.score) word.choose(tokens[i].scores);
      }
      if (strategy == "average") word.choose(mean);
      words.push_back(std::move(word));
      begin = end;
    }
    return words;
  }

  // "B-LOC" begins an entity of its own; "I-LOC", or a label without a prefix, goes on with one of its kind.
  std::vector<Json> groups_of(const std::vector<TaggedToken>& tokens) const {
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
      std::vector<int64_t> ids;
      for (size_t i = begin; i < end; ++i) {
        score += tokens[i].score / static_cast<double>(end - begin);
        ids.insert(ids.end(), tokens[i].ids.begin(), tokens[i].ids.end());
      }
      const std::string name = name_of(tokens[begin].label);
      const size_t dash = name.find('-');
      groups.push_back({{"entity_group", dash == name.npos ? name : name.substr(dash + 1)},
                        {"score", score},
                        {"word", model_.tokenizer.decode(ids)},
                        {"start", tokens[begin].begin},
                        {"end", tokens[end - 1].end}});
      begin = end;
    }
    return groups;
  }

  TextModel model_;
  std::vector<std::string> labels_;
};

}  // namespace

std::unique_ptr<Pipeline> make_token_classification(TextModel model) {
  return std::make_unique<TokenClassification>(std::move(model));
}

}  // namespace transom
