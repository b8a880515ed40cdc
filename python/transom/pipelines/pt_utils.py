# SPDX-License-Identifier: Apache-2.0
"""Columns of data sets as what a pipeline reads: pipe(KeyDataset(rows, "text"))."""


class KeyDataset:
    """One column of a data set."""

    def __init__(self, dataset, key):
        self.dataset, self.key = dataset, key

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        return self.dataset[index][self.key]

    def __iter__(self):
        return (self[index] for index in range(len(self)))


class KeyPairDataset(KeyDataset):
    """Two columns, as texts and what stands beside them."""

    def __init__(self, dataset, key1, key2):
        super().__init__(dataset, key1)
        self.key1, self.key2 = key1, key2

    def __getitem__(self, index):
        row = self.dataset[index]
        return {"text": row[self.key1], "text_pair": row[self.key2]}
