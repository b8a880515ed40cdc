# SPDX-License-Identifier: Apache-2.0
"""Every architecture that `transom models` lists: its small configuration and the classes that it is made for.

A family is its configuration (`model_type` and fields), the tokenizer that lies beside it, and its classes. `main`
names the cases of a full vocabulary, with two layers, a tokenizer and the files of the task; every other class has a
case of one layer, 60 words and no tokenizer, called after family and head.
"""

from backbones import BACKBONES
from captions import CAPTIONS, SWIN
from decoders import DECODERS
from detection import DETECTION
from documents import DOCUMENTS
from encoders import ENCODERS, GEMMA3
from experts import EXPERTS
from family import ANSWERS, CAUSAL, CHOICE, MASKED, ROPE, SEQUENCE, TOKENS, Family, names
from hearing import HEARING
from patches import TOKENS_BEFORE_PATCHES
from questions import QUESTIONS
from sources import SOURCES
from speaking import SPEAKING
from states import STATES
from timm_networks import TIMM
from towers import TOWERS
from videos import VIDEOS
from vision_language import READERS

EMOTIONS, ENTITIES = ["sadness", "joy", "anger", "fear"], ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]

DEPTH = dict(patch_size=7, reassemble_hidden_size=16, fusion_hidden_size=8, head_hidden_size=6)
DEPTH_BACKBONE = dict(
    model_type="dinov2",
    hidden_size=16,
    num_hidden_layers=4,
    num_attention_heads=4,
    mlp_ratio=2,
    image_size=28,
    patch_size=7,
    reshape_hidden_states=False,
)

FAMILIES = {
    "albert": Family(
        dict(embedding_size=8, num_hidden_layers=3),
        names("Albert", "Model", SEQUENCE, TOKENS, ANSWERS, MASKED, "ForPreTraining", CHOICE),
        {"albert-masked-lm": ("AlbertForMaskedLM", "parameters shared over layers; factorised embedding")},
        "albert",
    ),
    "bart": Family(
        {},
        names("Bart", "Model", "ForConditionalGeneration", SEQUENCE, ANSWERS),
        {"bart": ("BartForConditionalGeneration", "learned positions offset by 2")},
        "bart",
        "bart",
    ),
    "bert": Family(
        {},
        names(
            "Bert",
            "Model",
            SEQUENCE,
            TOKENS,
            ANSWERS,
            MASKED,
            "LMHeadModel",
            "ForPreTraining",
            "ForNextSentencePrediction",
            CHOICE,
        ),
        {
            "bert-sequence-classification": ("BertForSequenceClassification", "cross entropy over four labels"),
            "bert-token-classification": ("BertForTokenClassification", "labels -100 at special tokens and padding"),
            "bert-question-answering": ("BertForQuestionAnswering", "pairs of texts; token types matter"),
            "bert-masked-lm": ("BertForMaskedLM", "tied decoder; a sharded checkpoint with its index"),
            "bert-pretraining": ("BertForPreTraining", "the losses of masked words and next sentence are added"),
        },
        "bert",
        heads={"BertLMHeadModel": dict(is_decoder=True)},
    ),
    "bloom": Family(
        {},
        names("Bloom", "Model", CAUSAL, SEQUENCE, TOKENS, ANSWERS),
        {"bloom-lm": ("BloomForCausalLM", "alibi; fused qkv by head")},
        "bloom",
        "bloom",
    ),
    "camembert": Family(
        {},
        names("Camembert", "Model", SEQUENCE, TOKENS, ANSWERS, MASKED, CAUSAL, CHOICE),
        {"camembert-masked-lm": ("CamembertForMaskedLM", "only pytorch_model.bin: a zip of torch")},
        "camembert",
        heads={"CamembertForCausalLM": dict(is_decoder=True)},
    ),
    "clip": Family(
        dict(projection_dim=12),
        names("CLIP", "Model", "ForImageClassification"),
        {"clip": ("CLIPModel", "contrastive loss; quick_gelu; pooled at the end-of-text token")},
        "clip",
        "none",
    ),
    "clip_text_model": Family(dict(projection_dim=12), names("CLIPTextModel", "", "WithProjection")),
    "clip_vision_model": Family(
        dict(projection_dim=12), names("CLIPVisionModel", "", "WithProjection"), sizes="vision"
    ),
    "convnext": Family(
        dict(depths=[1, 2, 1], hidden_sizes=[8, 12, 16], num_stages=3, image_size=48, layer_scale_init_value=1e-6),
        names("ConvNext", "Model", "ForImageClassification"),
        {"convnext-image-classification": ("ConvNextForImageClassification", "layer scale; depthwise 7x7")},
        sizes="none",
    ),
    "convnextv2": Family(
        dict(depths=[1, 2, 1], hidden_sizes=[6, 8, 12], num_stages=3, image_size=[37, 24]),
        names("ConvNextV2", "Model", "ForImageClassification"),
        heads={
            "ConvNextV2Model": dict(
                depths=[2, 1], hidden_sizes=[8, 10], num_stages=2, hidden_act="relu", patch_size=[3, 2], layer_norm_eps=0.1
            )
        },
        sizes="none",
        more={
            "convnextv2-other-image-classification": (
                "ConvNextV2ForImageClassification",
                dict(depths=[1, 1], hidden_sizes=[5, 9], num_stages=2, hidden_act="relu", patch_size=3, layer_norm_eps=0.1),
                "other extents, ReLU, a large epsilon",
            )
        },
    ),
    "deberta-v2": Family(
        dict(
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_buckets=8,
            share_att_key=True,
            norm_rel_ebd="layer_norm",
            position_biased_input=False,
            type_vocab_size=0,
        ),
        names("DebertaV2", "Model", SEQUENCE, TOKENS, ANSWERS, MASKED, CHOICE),
        {
            "deberta-v2-sequence-classification": (
                "DebertaV2ForSequenceClassification",
                "disentangled attention both ways, log buckets, shared keys",
            )
        },
        "deberta_v2",
        heads={"DebertaV2ForSequenceClassification": dict(pooler_hidden_size=16)},
    ),
    "depth_anything": Family(
        DEPTH
        | dict(
            backbone_config=DEPTH_BACKBONE | dict(out_indices=[1, 2, 3, 4]),
            neck_hidden_sizes=[6, 8, 10, 12],
            reassemble_factors=[4, 2, 1, 0.5],
        ),
        ["DepthAnythingForDepthEstimation"],
        {"depth-anything": ("DepthAnythingForDepthEstimation", "relative depth; four maps, enlarged and made smaller")},
        sizes="none",
    ),
    "depth_anything_metric": Family(
        DEPTH
        | dict(
            backbone_config=DEPTH_BACKBONE
            | dict(out_features=["stem", "stage2", "stage3"], apply_layernorm=False, use_swiglu_ffn=True),
            neck_hidden_sizes=[6, 10, 8],
            reassemble_factors=[2, 1, 0.5],
            depth_estimation_type="metric",
            max_depth=20,
            head_in_index=1,
        ),
        ["DepthAnythingForDepthEstimation"],
        {
            "depth-anything-metric": (
                "DepthAnythingForDepthEstimation",
                "metric depth of pictures that are no square; three maps, of the embeddings too, without norm",
            )
        },
        sizes="none",
        model_type="depth_anything",
    ),
    "dinov2": Family(
        dict(image_size=28, patch_size=7, mlp_ratio=2),
        names("Dinov2", "Model", "ForImageClassification"),
        {"dinov2-image-classification": ("Dinov2ForImageClassification", "layer scale; head on class token and mean")},
        sizes="vision",
    ),
    "distilbert": Family(
        {},
        names("DistilBert", "Model", SEQUENCE, TOKENS, ANSWERS, MASKED, CHOICE),
        {
            "distilbert-sequence-classification": (
                "DistilBertForSequenceClassification",
                "no token types; ReLU before the classifier",
            )
        },
        "bert",
        "distilbert",
    ),
    "efficientnet": Family(
        dict(
            image_size=40,
            width_coefficient=0.125,
            depth_coefficient=1.0,
            depth_divisor=4,
            hidden_dim=160,
            in_channels=[32, 16, 24],
            out_channels=[16, 24, 40],
            kernel_sizes=[3, 3, 5],
            strides=[1, 2, 2],
            num_block_repeats=[1, 2, 1],
            expand_ratios=[1, 4, 4],
            depthwise_padding=[],
            drop_connect_rate=0.0,
        ),
        names("EfficientNet", "Model", "ForImageClassification"),
        {
            "efficientnet-image-classification": (
                "EfficientNetForImageClassification",
                "squeeze and excite; asymmetric padding; rounded widths",
            )
        },
        sizes="none",
    ),
    "electra": Family(
        dict(embedding_size=8),
        names("Electra", "Model", SEQUENCE, TOKENS, ANSWERS, MASKED, CAUSAL, "ForPreTraining", CHOICE),
        {
            "electra-sequence-classification": (
                "ElectraForSequenceClassification",
                "projected embeddings; labels of an entailment model",
            )
        },
        "bert",
        heads={"ElectraForCausalLM": dict(is_decoder=True)},
    ),
    "gemma": Family(
        dict(head_dim=4, hidden_activation="gelu_pytorch_tanh", **ROPE),
        names("Gemma", "Model", CAUSAL, SEQUENCE, TOKENS),
        {"gemma-lm": ("GemmaForCausalLM", "norms of 1 + w; embeddings times the root of the width")},
        "gemma",
        "grouped",
    ),
    "gemma2": Family(
        dict(
            head_dim=4,
            query_pre_attn_scalar=6,
            attn_logit_softcapping=20.0,
            final_logit_softcapping=10.0,
            sliding_window=6,
            **ROPE
        ),
        names("Gemma2", "Model", CAUSAL, SEQUENCE, TOKENS),
        {"gemma2-lm": ("Gemma2ForCausalLM", "capped logits; norms before and after; windows of 6 on even layers")},
        "gemma",
        "grouped",
    ),
    "gemma3_text": GEMMA3,
    "gpt2": Family(
        {},
        names("GPT2", "Model", "LMHeadModel", SEQUENCE, TOKENS, ANSWERS),
        {"gpt2-lm": ("GPT2LMHeadModel", "weights of Conv1D lie (in, out); tied head")},
        "gpt2",
        "gpt2",
    ),
    "gpt_bigcode": Family(
        dict(multi_query=True),
        names("GPTBigCode", "Model", CAUSAL, SEQUENCE, TOKENS),
        {"gpt-bigcode-lm": ("GPTBigCodeForCausalLM", "one key and value head; stored in bfloat16")},
        "starcoder",
        "gpt2",
    ),
    "gpt_neox": Family(
        dict(
            use_parallel_residual=True,
            rope_parameters={"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5},
        ),
        names("GPTNeoX", "Model", CAUSAL, SEQUENCE, TOKENS, ANSWERS),
        {"gpt-neox-lm": ("GPTNeoXForCausalLM", "parallel residual; positions turn half of each head")},
        "gpt_neox",
        "decoder",
    ),
    "llama": Family(
        ROPE,
        names("Llama", "Model", CAUSAL, SEQUENCE, TOKENS, ANSWERS),
        {"llama-lm": ("LlamaForCausalLM", "two key heads for four; RMS norm, SwiGLU, rope")},
        "llama",
        "grouped",
    ),
    "llava": Family(
        {},
        ["LlavaModel", "LlavaForConditionalGeneration"],
        {"llava": ("LlavaForConditionalGeneration", "CLIP and LLaMA; names of weights as in Transformers 4")},
        "llama",
        "none",
        more={
            "llava-qwen2": (
                "LlavaForConditionalGeneration",
                {},
                "CLIP and Qwen 2, tied; states of two layers with the class token; no biases; names of Transformers 5",
            )
        },
    ),
    "marian": Family(
        dict(static_position_embeddings=True, scale_embedding=True, activation_function="swish"),
        ["MarianModel", "MarianMTModel"],
        {"marian": ("MarianMTModel", "sinusoids; a bias of the logits; starts with the pad token")},
        "marian",
        "bart",
    ),
    "mistral": Family(
        dict(head_dim=4, sliding_window=6, **ROPE),
        names("Mistral", "Model", CAUSAL, SEQUENCE, TOKENS, ANSWERS),
        {"mistral-lm": ("MistralForCausalLM", "a window of 6, shorter than the texts")},
        "llama_metaspace",
        "grouped",
    ),
    "mixtral": Family(
        dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=16, **ROPE),
        names("Mixtral", "Model", CAUSAL, SEQUENCE, TOKENS, ANSWERS),
        {"mixtral-lm": ("MixtralForCausalLM", "two of four experts; one tensor an expert in the file")},
        "llama",
        "grouped",
    ),
    "modernbert": Family(
        dict(num_hidden_layers=3, global_attn_every_n_layers=3, local_attention=8),
        names("ModernBert", "Model", MASKED, SEQUENCE, TOKENS, ANSWERS, CHOICE),
        {"modernbert-masked-lm": ("ModernBertForMaskedLM", "rope; GeGLU; global and local attention take turns")},
        "modernbert",
    ),
    "mpnet": Family(
        {},
        names("MPNet", "Model", SEQUENCE, TOKENS, ANSWERS, MASKED, CHOICE),
        {"mpnet-model": ("MPNetModel", "a bias by relative distance; no loss")},
        "mpnet",
    ),
    "opt": Family(
        {},
        names("OPT", "Model", CAUSAL, SEQUENCE, ANSWERS),
        {"opt-lm": ("OPTForCausalLM", "positions counted from the mask, offset by 2; ReLU")},
        "opt",
        "opt",
    ),
    "phi3": Family(
        ROPE,
        names("Phi3", "Model", CAUSAL, SEQUENCE, TOKENS),
        {"phi3-lm": ("Phi3ForCausalLM", "qkv and gate-up in one tensor each")},
        "llama",
        "grouped",
    ),
    "qwen2": Family(
        ROPE,
        names("Qwen2", "Model", CAUSAL, SEQUENCE, TOKENS, ANSWERS),
        {"qwen2-lm": ("Qwen2ForCausalLM", "biases of q, k and v alone")},
        "qwen2",
        "grouped",
    ),
    "qwen3": Family(
        dict(head_dim=6, tie_word_embeddings=True, **ROPE),
        names("Qwen3", "Model", CAUSAL, SEQUENCE, TOKENS, ANSWERS),
        {"qwen3-lm": ("Qwen3ForCausalLM", "norms of q and k; heads wider than hidden / heads; tied")},
        "qwen2",
        "grouped",
    ),
    **BACKBONES,
    **EXPERTS,
    **DECODERS,
    **STATES,
    **TIMM,
    **VIDEOS,
    **ENCODERS,
    **DETECTION,
    **DOCUMENTS,
    **TOKENS_BEFORE_PATCHES,
    **CAPTIONS,
    **SOURCES,
    **QUESTIONS,
    **READERS,
    **TOWERS,
    **HEARING,
    **SPEAKING,
    "resnet": Family(
        dict(depths=[1, 2, 1, 1], hidden_sizes=[8, 12, 16, 20], embedding_size=8, layer_type="bottleneck"),
        names("ResNet", "Model", "ForImageClassification"),
        {"resnet-image-classification": ("ResNetForImageClassification", "bottlenecks; running statistics")},
        sizes="none",
    ),
    "roberta": Family(
        {},
        names("Roberta", "Model", SEQUENCE, TOKENS, ANSWERS, MASKED, CAUSAL, CHOICE),
        {"roberta-masked-lm": ("RobertaForMaskedLM", "positions start behind the padding's id and skip padding")},
        "roberta",
        heads={"RobertaForCausalLM": dict(is_decoder=True)},
    ),
    "starcoder2": Family(
        dict(sliding_window=8, tie_word_embeddings=True, **ROPE),
        names("Starcoder2", "Model", CAUSAL, SEQUENCE, TOKENS),
        {"starcoder2-lm": ("Starcoder2ForCausalLM", "biases, layer norms; a window of 8")},
        "starcoder",
        "grouped",
    ),
    "donut-swin": Family(
        {key: value for key, value in SWIN.items() if key != "model_type"} | dict(image_size=20),
        names("DonutSwin", "Model", "ForImageClassification"),
        sizes="none",
    ),
    "swin": Family(
        dict(
            image_size=32,
            patch_size=2,
            embed_dim=8,
            depths=[2, 2],
            num_heads=[2, 4],
            window_size=4,
            encoder_stride=4,
            drop_path_rate=0.0,
        ),
        names("Swin", "Model", "ForImageClassification", "ForMaskedImageModeling"),
        {"swin-image-classification": ("SwinForImageClassification", "shifted windows; patches are merged")},
        sizes="none",
    ),
    "t5": Family(
        dict(
            relative_attention_num_buckets=8,
            relative_attention_max_distance=20,
            feed_forward_proj="relu",
            decoder_start_token_id=0,
            eos_token_id=1,
            pad_token_id=0,
        ),
        names("T5", "Model", "EncoderModel", "ForConditionalGeneration", SEQUENCE, TOKENS, ANSWERS),
        {"t5": ("T5ForConditionalGeneration", "ReLU; a tied head times d_model^-0.5; a bias by distance")},
        "t5",
        "t5",
    ),
    "vit": Family(
        dict(encoder_stride=8),
        names("ViT", "Model", "ForImageClassification", "ForMaskedImageModeling"),
        {"vit-image-classification": ("ViTForImageClassification", "a head on the class token")},
        sizes="vision",
    ),
    "xlm-roberta": Family(
        {},
        names("XLMRoberta", "Model", SEQUENCE, TOKENS, ANSWERS, MASKED, CAUSAL, CHOICE),
        {"xlm-roberta-token-classification": ("XLMRobertaForTokenClassification", "a Unigram vocabulary")},
        "xlmr",
        heads={"XLMRobertaForCausalLM": dict(is_decoder=True)},
    ),
}
LABELS = {
    "ast-audio-classification": ["speech", "music", "rain", "dog"],
    "bert-sequence-classification": EMOTIONS,
    "bert-token-classification": ENTITIES,
    "xlm-roberta-token-classification": ENTITIES,
    "layoutlmv3-other-token-classification": [f"LABEL_{i}" for i in range(11)],
    "distilbert-sequence-classification": ["NEGATIVE", "POSITIVE"],
    "electra-sequence-classification": ["contradiction", "neutral", "entailment"],
    "vit-image-classification": ["cat", "dog", "boat", "tree", "car"],
    "wav2vec2-sequence-classification": ["yes", "no", "up", "down"],
}
TOKENIZERS = {
    "bart": "roberta",
    "llava-qwen2": "qwen2",
    "llava-next-siglip": "qwen2",
    "bert-token-classification": "bert_cased",
}  # where the family's word is not the tokenizer's
STORED = {"bert-masked-lm": "sharded", "camembert-masked-lm": "bin", "gpt-bigcode-lm": "bf16"}
