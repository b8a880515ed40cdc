# SPDX-License-Identifier: Apache-2.0
"""DLRM (Naumov et al., 2019) in PyTorch, as race.py's peers run it: the names of its parameters are those of
facebookresearch/dlrm, its inputs those of Transom's model."""
import torch
from torch import nn


def layers(widths, last):
    made = []
    for i, (before, after) in enumerate(zip(widths, widths[1:])):
        made += [nn.Linear(before, after), last if i + 2 == len(widths) else nn.ReLU()]
    return nn.Sequential(*made)


class DLRM(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, tables = config["arch_sparse_feature_size"], config["arch_embedding_size"]
        self.emb_l = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for rows in tables)
        self.bot_l = layers(config["arch_mlp_bot"], nn.ReLU())
        vectors = len(tables) + 1
        self.top_l = layers([width + vectors * (vectors - 1) // 2, *config["arch_mlp_top"]], nn.Sigmoid())
        self.register_buffer("below", torch.tensor([i * vectors + j for i in range(vectors) for j in range(i)]),
                             persistent=False)

    def forward(self, dense_x, lS_o, **indices):
        dense = self.bot_l(dense_x)
        vectors = [dense] + [bag(indices[f"lS_i.{i}"], lS_o[i]) for i, bag in enumerate(self.emb_l)]
        stacked = torch.stack(vectors, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2)).flatten(1)
        return self.top_l(torch.cat([dense, products.index_select(1, self.below)], dim=1))


class OneEach(nn.Module):
    """The same where each bag has one index, as in the races: ONNX has rows of a table, but no bags."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, dense_x, indices):
        model = self.model
        dense = model.bot_l(dense_x)
        vectors = [dense] + [nn.functional.embedding(indices[i], bag.weight) for i, bag in enumerate(model.emb_l)]
        stacked = torch.stack(vectors, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2)).flatten(1)
        return model.top_l(torch.cat([dense, products.index_select(1, model.below)], dim=1))
