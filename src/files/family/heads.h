// SPDX-License-Identifier: Apache-2.0
// What a class of a family computes with its last layers: what for, from which labels it learns, what its loss is
// divided by, and which modules do it.
#pragma once

#include <string>
#include <vector>

#include "files/family/stated.h"

namespace transom {

enum class HeadTask {
  kBody,        // none: the hidden states are what it gives
  kProjection,  // a vector of a tower, to be compared with one of the other
  kCausalLM,    // the next token. A model that sees pictures beside the text is one, whatever its class is called
  kSequenceToSequence,  // the next token of a decoder that looks at what an encoder read
  kMaskedLM,
  kPreTraining,     // masked tokens, and whether two sentences follow each other
  kReplacedTokens,  // which tokens another model put there
  kNextSentence,    // whether two sentences follow each other
  kSequenceClassification,
  kTokenClassification,
  kQuestionAnswering,
  kMultipleChoice,
  kImageClassification,
  kVideoClassification,
  kMaskedImage,
  kAudioClassification,
  kFrameClassification,
  kCtc,      // characters without places: connectionist temporal classification
  kSpeaker,  // a vector of a voice
  kMaskedAudio,
  kContrastive,  // which of several texts belongs to which of several pictures
  kClickPrediction,
  kDepth,            // how far away each pixel is
  kObjectDetection,  // boxes around objects, and their classes
  kSegmentation,     // which class or which object each pixel is of
  kSpeech            // the sound of a text
};

// What a head learns from, by its arguments. B rows, T tokens, C classes.
enum class HeadLabels {
  kNone,
  kClass,          // labels [B], a class of id2label; or numbers, or [B, C], by problem_type
  kTokenClasses,   // labels [B, T]
  kFrameClasses,   // labels [B, frames, C]
  kSpan,           // start_positions and end_positions [B]
  kChoice,         // labels [B]: which of the choices
  kOrder,          // labels [B]: 0 or 1
  kTokens,         // labels [B, T]: ids of the vocabulary
  kReplaced,       // labels [B, T]: 0 or 1
  kCharacters,     // labels [B, length of the text]: ids of the vocabulary
  kMaskedPatches,  // bool_masked_pos [B, patches]: which of the picture are to be made up
  kMaskedFrames,   // mask_time_indices [B, frames] and sampled_negative_indices [B, frames, negatives]
  kPairs,          // none: row i of the one input belongs to row i of the other
  kClicks,         // labels [B]: 0 or 1
  kBoxes,  // class_labels [B, N] (-100: none) and boxes [B, N, 4]: centre, width and height in parts of the picture
  kPixelClasses,  // labels [B, height, width]
  kMasks,         // class_labels [B, N] (-100: none) and mask_labels [B, N, height, width], 1 where an object is
  kSpectrum       // labels [B, frames, bands] of a sound; -100: none
};

// What Transformers' Trainer divides a loss by that is a sum over labels.
enum class LossDivisor {
  kOwn,       // the labels that the loss itself counts; where tokens are predicted, those that a token stands before
  kAllLabels  // the first of each row too, though nothing predicts it: classes that are not called ...ForCausalLM
};

struct FamilyHead {
  Stated<HeadTask> task;
  Stated<std::vector<std::string>> pipelines;  // tasks that take it; the first is what the model is for
  Stated<HeadLabels> labels;
  // What holds its parameters, by their first words in the model, and those of a pooler: all others are the body's.
  Stated<std::vector<std::string>> modules;
  // The module whose outputs are logits over the vocabulary, by its names in the checkpoint and in Transformers; also
  // where its weight is that of the embedding, and stands in no file. none: the logits are over something else.
  Stated<std::vector<std::string>> vocabulary;
  Stated<std::vector<std::string>> outputs;  // what it gives without labels
  LossDivisor divisor = LossDivisor::kOwn;
  std::string second_label = {};                              // an argument [B], 0 or 1, which the loss needs besides
  std::vector<std::string> vocabulary_size = {"vocab_size"};  // the first field that is there
  std::string classes = "num_labels";  // the field that says how many, where there is no id2label
  bool begins_as_given = false;        // what decoder_input_ids hold need not begin with the decoder's first token
  bool judges_pairs_apart = false;     // of kContrastive: whether a text and a picture belong together does not hang on
                                       // the others, and the sigmoid of a logit is its probability (SigLIP)
};

// Whether the labels are classes that id2label names.
inline bool has_named_classes(const FamilyHead& head) {
  return *head.labels == HeadLabels::kClass || *head.labels == HeadLabels::kTokenClasses ||
         *head.labels == HeadLabels::kFrameClasses;
}
// Whether it writes a text behind what an encoder read.
inline bool is_encoder_decoder(const FamilyHead& head) { return *head.task == HeadTask::kSequenceToSequence; }

}  // namespace transom
