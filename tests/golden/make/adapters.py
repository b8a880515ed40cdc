# SPDX-License-Identifier: Apache-2.0
"""Records what PEFT makes of small models: for each kind of adapter the directory that it saves before and after ten
updates, the losses and gradient norms of these, and logits behind them.

    pip install torch==2.15.0 transformers==5.24.0 peft==0.21.2 safetensors
    python tests/golden/make/adapters.py tests/golden/adapters

The models `decoder` (LLaMA), `tied` (GPT-2) and `encoder` (BERT with three classes) are made once; a case NAME-MODEL
holds `initial` and `trained`, directories of PEFT, and `curve.json`. There `relative` is how far f32 may be from these
numbers: ten times as far as it is from f64 in PyTorch, at least 1e-5. Files `adapter_training.safetensors` hold what
training needs and PEFT does not save: the encoder of virtual tokens.
"""
import copy
import json
import os
import shutil
import sys
import warnings

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
UPDATES, RATE, WIDTH, VOCABULARY = 10, 5e-3, 16, 64


def models():
    common = dict(vocab_size=VOCABULARY, initializer_range=0.2)
    yield "decoder", transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=WIDTH, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=32, pad_token_id=0, **common))
    yield "tied", transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=WIDTH, n_layer=2, n_head=2, n_positions=32, n_inner=24, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, **common))
    yield "encoder", transformers.BertForSequenceClassification(transformers.BertConfig(
        hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
        max_position_embeddings=32, num_labels=3, hidden_dropout_prob=0, attention_probs_dropout_prob=0, **common))


CLASSES = {"decoder": transformers.LlamaForCausalLM, "tied": transformers.GPT2LMHeadModel,
           "encoder": transformers.BertForSequenceClassification}
VIRTUAL = dict(num_virtual_tokens=3)
ADALORA = dict(init_r=4, target_r=2, lora_alpha=8, total_step=UPDATES, tinit=1, tfinal=3, deltaT=2, orth_reg_weight=0.1)
BOTH = {"decoder": ["q_proj", "o_proj", "down_proj"], "tied": ["c_attn", "c_proj"], "encoder": ["query", "output.dense"]}


def kinds():
    every = ("decoder", "tied", "encoder")
    lora = lambda **fields: lambda m: peft.LoraConfig(**{"r": 2, "lora_alpha": 4, **fields})
    yield "ia3", every, lambda m: peft.IA3Config()
    yield "ia3-pattern", ("decoder",), lambda m: peft.IA3Config(
        target_modules=r".*\.1\..*(q_proj|up_proj|down_proj)", feedforward_modules=r".*down_proj")
    yield "prompt", every, lambda m: peft.PromptTuningConfig(**VIRTUAL)
    yield "prefix", ("decoder", "tied"), lambda m: peft.PrefixTuningConfig(**VIRTUAL)
    yield "prefix-projected", ("decoder",), lambda m: peft.PrefixTuningConfig(
        prefix_projection=True, encoder_hidden_size=8, **VIRTUAL)
    yield "p-mlp", ("decoder", "encoder"), lambda m: peft.PromptEncoderConfig(encoder_hidden_size=8, **VIRTUAL)
    yield "p-lstm", ("decoder", "encoder"), lambda m: peft.PromptEncoderConfig(
        encoder_hidden_size=6, encoder_reparameterization_type="LSTM", **VIRTUAL)
    yield "vera", every, lambda m: peft.VeraConfig(r=4, target_modules=BOTH[m])
    yield "adalora", ("decoder", "encoder"), lambda m: peft.AdaLoraConfig(**ADALORA)
    yield "loha", ("decoder", "encoder"), lambda m: peft.LoHaConfig(
        r=2, alpha=4, target_modules=BOTH[m], rank_pattern={"q_proj": 3, "query": 3})
    yield "lokr", ("decoder", "encoder"), lambda m: peft.LoKrConfig(r=2, alpha=4, target_modules=BOTH[m])
    yield "lokr-both", ("decoder",), lambda m: peft.LoKrConfig(
        r=1, alpha=2, target_modules=["q_proj", "down_proj", "v_proj"], decompose_both=True, decompose_factor=4)
    yield "ln", every, lambda m: peft.LNTuningConfig(target_modules=["LayerNorm"] if m == "encoder" else None)
    yield "tokens", ("decoder", "tied"), lambda m: peft.TrainableTokensConfig(
        token_indices=[1, 5, 9], target_modules=None if m == "decoder" else ["wte"])
    yield "lora", every, lora()
    yield "lora-all", every, lora(target_modules="all-linear", use_rslora=True)
    yield "lora-tokens", every, lora(trainable_token_indices=[1, 5, 9])
    yield "lora-tokens-of-head", ("decoder",), lora(trainable_token_indices={"embed_tokens": [1, 5], "lm_head": [2]})
    yield "lora-tables", ("decoder",), lora(target_modules=["embed_tokens", "q_proj", "lm_head"])
    yield "lora-tables", ("tied",), lora(target_modules=["wte", "c_attn"])
    yield "lora-tables", ("encoder",), lora(target_modules=["word_embeddings", "position_embeddings", "query"])
    yield "lora-patterns", ("decoder",), lora(
        target_modules=["q_proj", "v_proj", "up_proj"], layers_to_transform=[1], layers_pattern="layers",
        rank_pattern={"q_proj": 3}, alpha_pattern={r"layers\.1\.mlp\.up_proj": 7}, exclude_modules=["self_attn.v_proj"])
    yield "lora-regex", ("encoder",), lora(
        target_modules=r".*layer\.[01]\.attention\.(self\.query|output\.dense)", exclude_modules=r".*layer\.0.*output.*",
        bias="lora_only")
    yield "lora-bias", ("tied",), lora(bias="all")
    yield "lora-bias-of-b", every, lora(lora_bias=True)
    yield "dora", every, lora(use_dora=True, target_modules=BOTH)
    yield "pissa", every, lora(init_lora_weights="pissa")
    yield "olora", ("decoder", "encoder"), lora(init_lora_weights="olora")


def batches(classes):
    generator = torch.Generator().manual_seed(5)
    for _ in range(UPDATES):
        ids = torch.randint(3, VOCABULARY, (3, 7), generator=generator)
        ids[0, :4] = torch.tensor([1, 5, 9, 2])
        mask = torch.ones_like(ids)
        mask[1, 5:] = 0
        ids[1, 5:] = 0
        labels = torch.randint(0, 3, (3,), generator=generator) if classes else ids.masked_fill(mask == 0, -100)
        yield {"input_ids": ids, "attention_mask": mask, "labels": labels}


def save_training(model, directory):
    encoder = getattr(model, "prompt_encoder", None)
    if encoder is None or len(list(encoder.parameters())) < 2:
        return
    tensors = {"prompt_encoder." + name: value.contiguous() for name, value in encoder["default"].state_dict().items()}
    save_file(tensors, os.path.join(directory, "adapter_training.safetensors"))


def train(model, data):
    """Losses and gradient norms of updates with AdamW."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=0)
    losses, norms = [], []
    model.train()
    for number, batch in enumerate(data):
        loss = model(**batch).loss
        loss.backward()
        losses.append(loss.item())
        norms.append(torch.nn.utils.get_total_norm([p.grad for p in trained if p.grad is not None]).item())
        optimizer.step()
        if hasattr(model.base_model, "update_and_allocate"):
            model.base_model.update_and_allocate(number)
        optimizer.zero_grad()
    model.eval()
    return losses, norms


def written(model, batch):
    """A prompt alone and the six tokens that a greedy search puts behind it, the one that ends a text left out. By
    passes over the whole text: with virtual tokens PEFT's generate() contradicts its own forward pass, since it loses
    prefixes and counts positions without virtual tokens."""
    text = batch["input_ids"][0].tolist()
    prompt = list(text)
    with torch.no_grad():
        for _ in range(6):
            ids = torch.tensor([text])
            scores = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, -1].float()
            scores[model.base_model.generation_config.eos_token_id] = -1e9
            text.append(scores.argmax().item())
    return [prompt, text[len(prompt):]]


def record(folder, name, model_name, make):
    base = os.path.join(folder, model_name)
    case = os.path.join(folder, f"{name}-{model_name}")
    shutil.rmtree(case, ignore_errors=True)
    config = make(model_name)
    if isinstance(getattr(config, "target_modules", None), dict):
        config.target_modules = set(BOTH[model_name])
    config.task_type = "SEQ_CLS" if model_name == "encoder" else "CAUSAL_LM"
    config.base_model_name_or_path = "../../" + model_name
    torch.manual_seed(7)
    model = peft.get_peft_model(CLASSES[model_name].from_pretrained(base, attn_implementation="eager"), config)
    model.peft_config["default"].base_model_name_or_path = "../../" + model_name
    double = copy.deepcopy(model).double()
    data = list(batches(model_name == "encoder"))
    for directory in ("initial", "trained"):
        path = os.path.join(case, directory)
        if directory == "trained":
            losses, norms = train(model, data)
        model.save_pretrained(path)
        os.remove(os.path.join(path, "README.md"))
        save_training(model, path)
    exact = train(double, data)
    curve = {"loss": losses, "gradient_norm": norms}
    distance = max(abs(a - b) / abs(b) for one, other in zip((losses, norms), exact) for a, b in zip(one, other))
    curve["relative"] = max(1e-5, 10 * distance)
    if model_name != "encoder":
        curve["written"] = written(model, data[0])
    with open(os.path.join(case, "curve.json"), "w", encoding="utf-8") as file:
        json.dump(curve, file, indent=1)
        file.write("\n")
    with torch.no_grad():
        logits = model(**{k: v for k, v in data[0].items() if k != "labels"}).logits
    save_file({"logits": logits.contiguous()}, os.path.join(case, "logits.safetensors"))
    print(f"{name}-{model_name}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, norm {norms[0]:.3f}, relative {curve['relative']:.1e}")


def main(folder, only):
    if not only:
        shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(3)
    for name, model in models():
        if not only:
            model.save_pretrained(os.path.join(folder, name))
    for name in ("tokens", "classes"):
        all_batches = list(batches(name == "classes"))
        save_file({key: torch.stack([batch[key] for batch in all_batches]) for key in all_batches[0]},
                  os.path.join(folder, f"{name}.safetensors"))
    for name, names, make in kinds():
        for model_name in names:
            if not only or name in only:
                record(folder, name, model_name, make)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
