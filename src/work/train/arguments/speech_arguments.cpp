// SPDX-License-Identifier: Apache-2.0
// The arguments of speech recognition, by the names of run_speech_recognition_ctc and run_speech_recognition_seq2seq.
#include "work/train/arguments/speech_arguments.h"

namespace transom {
namespace {

using Speech = ScriptArguments;

const Argument kSpeechArguments[] = {
    section("Speech recognition"),
    field<&Speech::freeze_encoder>("freeze_encoder", "Train the decoder alone (Whisper)."),
    field<&Speech::apply_spec_augment>("apply_spec_augment", "Mask frames as the configuration says (Whisper)."),
    field<&Speech::do_lower_case>("do_lower_case", "Transcripts become lower case (Whisper)."),
    field<&Speech::language>("language", "Language that is spoken, for a model of many (Whisper): english, de ..."),
    field<&Speech::speech_task>("speech_task", "What a model of many languages is told to write (Whisper).")
        .one_of({"transcribe", "translate"}),
    field<&Speech::chars_to_ignore>("chars_to_ignore", "Characters that are taken out of transcripts."),
    field<&Speech::eval_metrics>("eval_metrics", "Metrics: wer, cer."),
    field<&Speech::max_duration_in_seconds>("max_duration_in_seconds", "Leave out longer sounds.").above(0),
    field<&Speech::min_duration_in_seconds>("min_duration_in_seconds", "Leave out shorter sounds.").at_least(0),
    field<&Speech::unk_token>("unk_token", "Token for unknown characters in a new vocabulary."),
    field<&Speech::pad_token>("pad_token", "Token for padding and for CTC's blank in a new vocabulary."),
    field<&Speech::word_delimiter_token>("word_delimiter_token", "Token for spaces in a new vocabulary."),
    field<&Speech::attention_dropout>("attention_dropout", "Dropout of attention.").at_least(0).at_most(1),
    field<&Speech::activation_dropout>("activation_dropout", "Dropout inside of feed-forward layers.")
        .at_least(0)
        .at_most(1),
    field<&Speech::feat_proj_dropout>("feat_proj_dropout", "Dropout behind the feature encoder.")
        .at_least(0)
        .at_most(1),
    field<&Speech::hidden_dropout>("hidden_dropout", "Dropout of layers.").at_least(0).at_most(1),
    field<&Speech::final_dropout>("final_dropout", "Dropout before the head.").at_least(0).at_most(1),
    field<&Speech::mask_time_prob>("mask_time_prob", "Part of the frames that begin a masked span.")
        .at_least(0)
        .at_most(1),
    field<&Speech::mask_time_length>("mask_time_length", "Length of a masked span of frames.").at_least(1),
    field<&Speech::mask_feature_prob>("mask_feature_prob", "Part of the features that begin a masked span.")
        .at_least(0)
        .at_most(1),
    field<&Speech::mask_feature_length>("mask_feature_length", "Length of a masked span of features.").at_least(1),
    field<&Speech::layerdrop>("layerdrop", "Part of the layers that are left out.").at_least(0).at_most(1),
    field<&Speech::ctc_loss_reduction>("ctc_loss_reduction", "How the losses of rows are combined.")
        .one_of({"mean", "sum"}),
    field<&Speech::ctc_zero_infinity>("ctc_zero_infinity", "Ignore transcripts that are too long for their sound."),
    field<&Speech::add_adapter>("add_adapter", "Convolutions behind the encoder that make frames fewer."),
};

}  // namespace

ArgumentTable speech_arguments() { return kSpeechArguments; }

}  // namespace transom
