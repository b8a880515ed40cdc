# SPDX-License-Identifier: Apache-2.0
"""The network of facebookresearch/dlrm, with its names of tensors: bags of categories, dense features, dot products."""

import torch
from safetensors.torch import save_file

from common import generator, write_json

SPECIAL = "bags by index and offset, one of them empty; products of all pairs, below the diagonal"
CONFIG = dict(
    model_type="dlrm",
    architectures=["DLRM_Net"],
    arch_sparse_feature_size=4,
    arch_embedding_size=[20, 12, 30, 7],
    arch_mlp_bot=[13, 16, 8, 4],
    arch_mlp_top=[16, 8, 1],
    arch_interaction_op="dot",
    arch_interaction_itself=False,
    sigmoid_bot=-1,
    sigmoid_top=2,
    loss_function="bce",
    loss_threshold=0.0,
)


def layers(widths, sigmoid_at):
    made = []
    for i, (n, m) in enumerate(zip(widths[:-1], widths[1:])):
        made += [torch.nn.Linear(n, m), torch.nn.Sigmoid() if i == sigmoid_at else torch.nn.ReLU()]
    return torch.nn.Sequential(*made)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        tables, width = CONFIG["arch_embedding_size"], CONFIG["arch_sparse_feature_size"]
        self.emb_l = torch.nn.ModuleList([torch.nn.EmbeddingBag(rows, width, mode="sum") for rows in tables])
        self.bot_l = layers(CONFIG["arch_mlp_bot"], CONFIG["sigmoid_bot"])
        vectors = len(tables) + 1
        self.top_l = layers([width + vectors * (vectors - 1) // 2, *CONFIG["arch_mlp_top"]], CONFIG["sigmoid_top"])

    def forward(self, dense_x, lS_o, labels, **indices):
        x = self.bot_l(dense_x)
        bags = [table(indices[f"lS_i.{k}"], lS_o[k]) for k, table in enumerate(self.emb_l)]
        vectors = torch.stack([x, *bags], 1)
        products = vectors @ vectors.transpose(1, 2)
        rows, columns = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        chance = self.top_l(torch.cat([x, products[:, rows, columns]], 1))
        return {"loss": torch.nn.functional.binary_cross_entropy(chance, labels), "probabilities": chance}


def build(name):
    random, model = generator(name), Net()
    with torch.no_grad():
        for key, parameter in sorted(model.named_parameters()):
            values = torch.empty(parameter.shape).normal_(generator=random)
            parameter.copy_(values * (0.1 if parameter.dim() == 1 else 1.2 / parameter.shape[1] ** 0.5))
    return model.eval()


def inputs(name):
    random = generator("inputs of " + name)
    rows, made, offsets = 8, {}, []
    for k, size in enumerate(CONFIG["arch_embedding_size"]):
        counts = torch.randint(1, 4, (rows,), generator=random)
        if k == 1:
            counts[3] = 0
        made[f"lS_i.{k}"] = torch.randint(0, size, (int(counts.sum()),), generator=random)
        offsets.append(counts.cumsum(0) - counts)
    made["lS_o"] = torch.stack(offsets)
    made["dense_x"] = torch.empty(rows, 13).normal_(generator=random)
    made["labels"] = torch.randint(0, 2, (rows, 1), generator=random).float()
    return made


def save(model, folder):
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, folder / "model.safetensors")
    write_json(folder / "config.json", CONFIG)
