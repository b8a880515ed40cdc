# SPDX-License-Identifier: Apache-2.0
"""Families that hear: waves, and spectrograms."""

from family import SEQUENCE, Family, names

SOUND = dict(
    do_stable_layer_norm=False, apply_spec_augment=False, mask_time_prob=0.0, pad_token_id=0, classifier_proj_size=16
)

HEARING = {
    "ast": Family(
        dict(patch_size=4, num_mel_bins=16, max_length=24, frequency_stride=3, time_stride=4),
        names("AST", "Model", "ForAudioClassification"),
        {"ast-audio-classification": ("ASTForAudioClassification", "overlapping patches of a spectrogram")},
        sizes="spectrogram",
        model_type="audio-spectrogram-transformer",
    ),
    "clap": Family(
        {},
        ["ClapModel"],
        {"clap": ("ClapModel", "a spectrogram laid as a square through windows; two scales")},
        "roberta",
        sizes="none",
    ),
    "hubert": Family(
        dict(SOUND, feat_extract_norm="layer", conv_bias=True, ctc_loss_reduction="sum"),
        names("Hubert", "Model", "ForCTC", SEQUENCE),
        {"hubert-ctc": ("HubertForCTC", "layer norms in the features; the sum of CTC losses")},
        "wav2vec2",
        "speech",
    ),
    "wav2vec2": Family(
        dict(
            SOUND,
            feat_extract_norm="group",
            conv_bias=False,
            num_codevectors_per_group=8,
            codevector_dim=8,
            proj_codevector_dim=8,
            num_negatives=4,
            tdnn_dim=[8, 8, 8, 8, 12],
            xvector_output_dim=8,
            tdnn_kernel=[5, 3, 3, 1, 1],
            tdnn_dilation=[1, 2, 3, 1, 1],
        ),
        names("Wav2Vec2", "Model", "ForCTC", SEQUENCE, "ForAudioFrameClassification", "ForPreTraining", "ForXVector"),
        {
            "wav2vec2-ctc": ("Wav2Vec2ForCTC", "group norm; the mean of CTC losses"),
            "wav2vec2-sequence-classification": (
                "Wav2Vec2ForSequenceClassification",
                "a weighted sum of layers; the mean over valid frames",
            ),
        },
        "wav2vec2",
        "speech",
        {
            "Wav2Vec2ForCTC": dict(ctc_loss_reduction="mean"),
            "Wav2Vec2ForSequenceClassification": dict(use_weighted_layer_sum=True),
        },
    ),
    "wavlm": Family(
        dict(
            SOUND,
            feat_extract_norm="group",
            num_buckets=8,
            max_bucket_distance=16,
            tdnn_dim=[8, 8, 8, 8, 12],
            xvector_output_dim=8,
            tdnn_kernel=[5, 3, 3, 1, 1],
            tdnn_dilation=[1, 2, 3, 1, 1],
        ),
        names("WavLM", "Model", "ForCTC", SEQUENCE, "ForAudioFrameClassification", "ForXVector"),
        {
            "wavlm-ctc": ("WavLMForCTC", "norms before; gates of distances in each layer"),
            "wavlm-sequence-classification": ("WavLMForSequenceClassification", "norms behind; a weighted sum of layers"),
        },
        sizes="speech",
        heads={
            "WavLMForCTC": dict(do_stable_layer_norm=True, feat_extract_norm="layer", hidden_size=8),
            "WavLMForSequenceClassification": dict(use_weighted_layer_sum=True),
        },
    ),
    "whisper": Family(
        dict(
            num_mel_bins=80,
            max_source_positions=50,
            max_target_positions=48,
            suppress_tokens=None,
            begin_suppress_tokens=None,
            classifier_proj_size=16,
        ),
        names("Whisper", "Model", "ForConditionalGeneration", "ForAudioClassification"),
        {
            "whisper": (
                "WhisperForConditionalGeneration",
                "log-mel input; generate() of the mixin, without rules of times",
            )
        },
        "whisper",
        "bart",
    ),
}
