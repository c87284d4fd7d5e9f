"""
Hyperparameters by gradients in PyTorch
=======================================

Hyperparameters of a Gaussian process by gradients: ARD lengthscales, variance and noise.

The features follow the library of their input, and `log_marginal_likelihood` is written for any
array library: with PyTorch tensors the marginal likelihood is differentiable in everything, and
L-BFGS maximises it. One target depends on the first two of five inputs: their lengthscales stay
short, the others grow. Needs torch (`pip install 'dotsketch[torch]'`).
"""

import matplotlib.pyplot as plt
import torch

from dotsketch import FeatureGPRegressor, Gaussian, MaclaurinFeatures
from dotsketch.gp import log_marginal_likelihood

torch.manual_seed(0)
torch.set_num_threads(1)  # the problem is small
X = torch.randn(600, 5, dtype=torch.float64)
y = torch.sin(X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * torch.randn(600, dtype=torch.float64)
train, test, mean = slice(0, 500), slice(500, 600), y[:500].mean()

# Parameters live on a logarithmic scale: positive without constraints.
log_lengthscale = torch.full((5,), 1.0, dtype=torch.float64, requires_grad=True)
log_variance = torch.zeros((), dtype=torch.float64, requires_grad=True)
log_noise = torch.tensor(-1.0, dtype=torch.float64, requires_grad=True)
parameters = [log_lengthscale, log_variance, log_noise]

# One draw of the weights and one allocation for the whole search: a smooth function.
features = MaclaurinFeatures(
    Gaussian(lengthscale=log_lengthscale.exp()), n_components=150, random_state=0
).fit(X[train])


def loss():
    features.kernel_.set_params(lengthscale=log_lengthscale.exp())
    Z = features.transform(X[train])
    evidence = log_marginal_likelihood(Z, y[train] - mean, log_noise.exp(), log_variance.exp())
    return -evidence / 500


optimiser = torch.optim.LBFGS(parameters, max_iter=15, line_search_fn="strong_wolfe")


def closure():
    optimiser.zero_grad()
    value = loss()
    value.backward()
    return value


print(f"before   -log p(y)/n {loss().item():.3f}")
paths = [log_lengthscale.exp().tolist()]
for round_number in range(1, 5):
    optimiser.step(closure)
    scales = ", ".join(f"{value:.1f}" for value in log_lengthscale.exp().tolist())
    noise = log_noise.exp().item()
    paths.append(log_lengthscale.exp().tolist())
    print(f"round {round_number}  -log p(y)/n {loss().item():.3f}   noise {noise:.4f}   [{scales}]")

# The trained numbers in an estimator: features are drawn and allocated for them anew.
gp = FeatureGPRegressor(
    MaclaurinFeatures(
        Gaussian(lengthscale=log_lengthscale.exp().detach().numpy()),
        n_components=150,
        random_state=0,
    ),
    noise_variance=log_noise.exp().item(),
    prior_variance=log_variance.exp().item(),
    normalize_y="mean",  # as above
).fit(X[train].numpy(), y[train].numpy())
print(f"R² on rows held out: {gp.score(X[test].numpy(), y[test].numpy()):.3f}")

plt.semilogy(paths, ".-", label=[f"input {k + 1}" for k in range(5)])
plt.xlabel("round of L-BFGS")
plt.ylabel("lengthscale")
plt.legend()
plt.show()
