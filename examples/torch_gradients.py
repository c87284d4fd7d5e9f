"""
Gradients in PyTorch
====================

Gradients through random features in PyTorch, to the inputs and to a kernel parameter.

The features follow the library of their input: a tensor in, a tensor out, in the same graph.
Needs torch (`pip install 'dotsketch[torch]'`).
"""

import matplotlib.pyplot as plt
import torch

from dotsketch import PolynomialSketch

torch.manual_seed(0)
torch.set_num_threads(1)  # the problem is small
X = torch.rand(400, 8, dtype=torch.float64) - 0.5
y = torch.sin(X.sum(dim=1)) + 0.05 * torch.randn(400, dtype=torch.float64)

# 1. The gradient with respect to the inputs, checked against finite differences.
features = PolynomialSketch(3, coef0=1.0, n_components=64, random_state=0).fit(X)
rows = X[:3].clone().requires_grad_()
assert torch.autograd.gradcheck(features.transform, (rows,))
print("gradient to the inputs agrees with finite differences")


# 2. A parameter of the kernel, learnt from the error of a ridge regression on held-out rows.
def held_out_error(gamma):
    sketch = PolynomialSketch(3, gamma=gamma, coef0=1.0, n_components=200, random_state=0)
    Z = sketch.fit_transform(X)  # one seed: the same weights for every gamma
    train, test = Z[:300], Z[300:]
    ridge = train.T @ train + 0.1 * torch.eye(200, dtype=Z.dtype)
    weights = torch.linalg.solve(ridge, train.T @ y[:300])
    return torch.mean((test @ weights - y[300:]) ** 2)


log_gamma = torch.tensor(-6.0, dtype=torch.float64, requires_grad=True)
optimiser = torch.optim.Adam([log_gamma], lr=0.2)
errors = []
for step in range(41):
    optimiser.zero_grad()
    error = held_out_error(log_gamma.exp())
    error.backward()
    errors.append((log_gamma.exp().item(), error.item()))
    if step % 10 == 0:
        print(f"step {step:2d}   gamma {log_gamma.exp().item():.3f}   error {error.item():.4f}")
    optimiser.step()

plt.loglog(*zip(*errors, strict=True), ".-")
plt.xlabel("gamma")
plt.ylabel("error on held-out rows")
plt.show()
