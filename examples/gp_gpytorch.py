"""
A feature map as a kernel of GPyTorch
=====================================

Train an exact Gaussian process of GPyTorch on thousands of rows, one lengthscale for each column.

`SketchKernel` gives GPyTorch a Gram matrix of low rank, so that the evidence of all rows and its
gradient take no n × n matrix. The data are the 45,730 rows of protein structures (CASP) if the
folder DOTSKETCH_DATA has them, and scikit-learn's diabetes otherwise. Needs torch and gpytorch
(`pip install 'dotsketch[gpytorch]'`).
"""

import time

import gpytorch
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_diabetes

from dotsketch import FourierFeatures, Gaussian
from dotsketch.datasets import DatasetError, load_dataset
from dotsketch.gpytorch import SketchKernel

STEPS, COLUMNS = 30, 300

torch.manual_seed(0)
try:
    data = load_dataset("protein")
    name, X, y = "protein", data.X, data.y
except DatasetError:
    name, (X, y) = "diabetes", load_diabetes(return_X_y=True)

X = torch.as_tensor(X, dtype=torch.float32)
y = torch.as_tensor(y, dtype=torch.float32).flatten()
order = torch.randperm(len(X))
test, train = order[: len(X) // 10], order[len(X) // 10 :]
X = (X - X[train].mean(0)) / X[train].std(0)
y = (y - y[train].mean()) / y[train].std()


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        features = FourierFeatures(Gaussian(), n_components=COLUMNS, random_state=0)
        kernel = SketchKernel(features, x, ard_num_dims=x.shape[1])
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Model(X[train], y[train], likelihood)
evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)


def report(step):
    model.eval()
    with torch.no_grad():
        predicted = likelihood(model(X[test]))
        error = (predicted.mean - y[test]).square().mean().sqrt()
        density = torch.distributions.Normal(predicted.mean, predicted.stddev).log_prob(y[test])
    print(f"step {step:3d}   RMSE {error:.3f}   mean log density {density.mean():.3f}")
    model.train()


print(f"{name}: {len(train)} rows for training, {X.shape[1]} columns, {COLUMNS} features")
report(0)
optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
losses, start = [], time.perf_counter()
for _ in range(STEPS):
    optimiser.zero_grad()
    loss = -evidence(model(X[train]), y[train])
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
print(f"{(time.perf_counter() - start) / STEPS:.2f} seconds a step")
report(STEPS)
scales = model.covar_module.base_kernel.lengthscale[0].detach()
print("lengthscales, over the median distance:", " ".join(f"{s:.2f}" for s in scales))

plt.plot(losses)
plt.xlabel("step")
plt.ylabel("−log evidence per row")
plt.show()
