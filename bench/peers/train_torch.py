#!/usr/bin/env python3
"""The work of train_bench in PyTorch, at its best, as JSON: one row a line, named as there."""

import statistics
import time

from rows import Rows  # before torch: it sets what torch reads when loaded

import torch
import torch.nn as nn
import torch.nn.functional as functional


class HogwildNet(nn.Module):
    """PyTorch's example of Hogwild."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(self.drop(self.conv2(x)), 2))
        x = functional.relu(self.fc1(x.view(-1, 320)))
        x = functional.dropout(x, training=self.training)
        return self.fc2(x)


def mlp(inputs, hidden, classes, batch):
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    return model, torch.rand(batch, inputs), classes, 0.0


def cnn():
    return HogwildNet(), torch.rand(64, 1, 28, 28), 10, 0.5


def embedding():
    bags = nn.EmbeddingBag(100_000, 64, mode="mean", sparse=True)
    return nn.Sequential(bags, nn.Linear(64, 10)), torch.randint(0, 100_000, (32, 10)), 10, 0.0


WORK = {
    "mlp-100-256-10/b1": lambda: mlp(100, 256, 10, 1),
    "mlp-100-256-10/b32": lambda: mlp(100, 256, 10, 32),
    "mlp-784-128-10/b64": lambda: mlp(784, 128, 10, 64),
    "cnn/b64": cnn,
    "embedding-100000-64-10/b32": embedding,
}


def measure(make, seconds):
    """Nanoseconds for one step: the median of five times."""
    model, x, classes, momentum = make()
    target = torch.randint(0, classes, (x.shape[0],))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=momentum)

    def step():
        optimiser.zero_grad(set_to_none=True)
        functional.cross_entropy(model(x), target).backward()
        optimiser.step()

    for _ in range(20):
        step()
    samples = []
    for _ in range(5):
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds / 5:
            for _ in range(10):
                step()
            count += 10
        samples.append((time.perf_counter() - start) / count)
    return statistics.median(samples) * 1e9


def main():
    rows = Rows(__doc__)
    torch.set_num_threads(1)
    for work, make in WORK.items():
        name = f"torch/{work}/step"
        if rows.wanted(name):
            rows.report(name, measure(make, rows.seconds))


if __name__ == "__main__":
    main()
