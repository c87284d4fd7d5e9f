"""The kernel for GPyTorch: evidence and predictions are those of dense matrices of its features."""

import numpy as np
import pytest
from sklearn.base import clone

from dotsketch import FourierFeatures, Gaussian, MaclaurinFeatures, Polynomial, PolynomialSketch

torch = pytest.importorskip("torch")
gpytorch = pytest.importorskip("gpytorch")
SketchKernel = pytest.importorskip("dotsketch.gpytorch").SketchKernel

# The deprecation is of linear_operator's own code
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

RNG = np.random.default_rng(0)
X = torch.from_numpy(RNG.standard_normal((60, 3)) + 1)
Y = torch.sin(X[:, 0]) + 0.1 * torch.from_numpy(RNG.standard_normal(60))
FEATURES = [
    FourierFeatures(Gaussian(lengthscale=1.5), n_components=20, random_state=0),
    MaclaurinFeatures(Gaussian(lengthscale=1.5), n_components=40, random_state=0),
    PolynomialSketch(2, coef0=1.0, n_components=20, output="complex_to_real", random_state=0),
]


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def make_model(kernel, x=X, y=Y):
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = 0.05
    model = Model(x, y, likelihood, kernel).double()
    model.covar_module.outputscale = 1.7
    return model


@pytest.mark.parametrize("features", FEATURES, ids=str)
def test_the_kernel_is_a_product_of_features(features):
    kernel = SketchKernel(features, X, ard_num_dims=3).double()
    fitted = kernel.layer.description
    fitted_to_rows = clone(features).fit(X.numpy())
    rows = X[:10] if not fitted.kernel_.shift_invariant else X[:10] + 0.5
    scales = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    kernel.lengthscale = scales
    centre = X.mean(dim=0) if fitted.kernel_.shift_invariant else 0
    scaled = [((x - centre) / scales + centre).numpy() for x in (rows, X)]
    Z, V = (fitted_to_rows.transform(x) for x in scaled)
    np.testing.assert_allclose(kernel(rows, X).to_dense().detach(), Z @ V.T, atol=1e-10)
    np.testing.assert_allclose(kernel(X).to_dense().detach(), V @ V.T, atol=1e-10)
    np.testing.assert_allclose(kernel(X, diag=True).detach(), np.sum(V * V, axis=1), atol=1e-10)


@pytest.mark.parametrize("features", FEATURES, ids=str)
def test_evidence_and_predictions_are_those_of_dense_matrices(features):
    kernel = SketchKernel(features, X, ard_num_dims=3)
    model = make_model(kernel)
    K = 1.7 * kernel(X).to_dense() + 0.05 * torch.eye(60)
    exact = torch.distributions.MultivariateNormal(torch.zeros(60).double(), K)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    model.train()
    value = evidence(model(X), Y) * 60
    torch.testing.assert_close(value, exact.log_prob(Y), rtol=1e-6, atol=1e-6)
    raw = kernel.raw_lengthscale
    (found,) = torch.autograd.grad(value, raw)
    K = 1.7 * kernel(X).to_dense() + 0.05 * torch.eye(60)
    exact = torch.distributions.MultivariateNormal(torch.zeros(60).double(), K)
    (expected,) = torch.autograd.grad(exact.log_prob(Y), raw)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)

    model.eval()
    test = X[:7] * 1.1
    with torch.no_grad():
        posterior = model(test)
        cross, K = 1.7 * kernel(test, X).to_dense(), K.detach()
        mean = cross @ torch.linalg.solve(K, Y)
        covariance = 1.7 * kernel(test).to_dense() - cross @ torch.linalg.solve(K, cross.T)
    torch.testing.assert_close(posterior.mean, mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(posterior.covariance_matrix, covariance, rtol=1e-5, atol=1e-6)


def test_batches_of_lengthscales():
    features = clone(FEATURES[0]).fit(X.numpy())
    batch = SketchKernel(features, ard_num_dims=3, batch_shape=torch.Size([2])).double()
    scales = torch.tensor([[[1.0, 2.0, 3.0]], [[2.0, 1.0, 0.5]]], dtype=torch.float64)
    batch.lengthscale = scales
    found = batch(X).to_dense()
    assert found.shape == (2, 60, 60)
    for i in range(2):
        single = SketchKernel(features, ard_num_dims=3).double()
        single.lengthscale = scales[i]
        torch.testing.assert_close(found[i], single(X).to_dense())


def test_training_needs_no_square_matrix():
    """Rows that a square matrix would take 3 GB for; lengthscales learn what matters."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20_000, 2, generator=generator)
    y = torch.sin(2 * x[:, 0]) + 0.1 * torch.randn(20_000, generator=generator)
    features = FourierFeatures(Gaussian(lengthscale=1.0), n_components=40, random_state=0)
    model = make_model(SketchKernel(features, x, ard_num_dims=2), x, y).float()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.2)
    model.train()
    losses = []
    for _ in range(8):
        optimiser.zero_grad()
        loss = -evidence(model(x), y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    first, second = model.covar_module.base_kernel.lengthscale[0].tolist()
    assert second > first


def test_state_dict_and_messages():
    first, second = (
        SketchKernel(clone(FEATURES[0]).set_params(random_state=seed), X).double()
        for seed in (0, 1)
    )
    assert not torch.allclose(first(X).to_dense(), second(X).to_dense())
    second.load_state_dict(first.state_dict())
    torch.testing.assert_close(first(X).to_dense(), second(X).to_dense())
    with pytest.raises(ValueError, match="pass train_x"):
        SketchKernel(MaclaurinFeatures(Polynomial(2)))
    with pytest.raises(ValueError, match="complex_to_real"):
        SketchKernel(PolynomialSketch(2, output="complex"), X)
    with pytest.raises(TypeError, match="feature map"):
        SketchKernel(3)
