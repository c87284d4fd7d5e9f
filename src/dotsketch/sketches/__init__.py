"""Sketches of the homogeneous polynomial kernel ⟨x, y⟩ᵖ, products and trees of any projection,
TensorSketch, and compositions.

| name                     | class                | cost per row | variance                     |
|--------------------------|----------------------|--------------|------------------------------|
| `gaussian`               | GaussianSketch       | p d D        | the largest                  |
| `rademacher`             | RademacherSketch     | p d D        | least of independent weights |
| `tensor_srht`            | TensorSRHT           | p D log d    | less still for odd degrees   |
| `tensor_sketch`          | TensorSketch         | p(d+D log D) | like Rademacher's            |
| `balanced_tensor_sketch` | BalancedTensorSketch | p(d+D log D) | often the least of real ones |
| `tree_rademacher`        | RademacherTree       | p D (d + D)  | grows slowly with p          |
| `tree_srht`              | SRHTTree             | p D log(d D) | grows slowly with p          |

`MonomialSketch` is exact, in C(d + p − 1, p) columns. `CompactSketch` composes any of them with a
projection down to fewer features.
"""

from .._support.parameters import one_of, positive_integer
from .base import SeparableSketch, Sketch
from .compact import CompactSketch
from .monomials import MonomialSketch, monomial_projections
from .product import GaussianSketch, ProductSketch, RademacherSketch, TensorSRHT
from .tensor_sketch import BalancedTensorSketch, TensorSketch
from .tree import RademacherTree, SRHTTree, TreeSketch

SKETCHES: dict[str, type[Sketch]] = {
    "gaussian": GaussianSketch,
    "rademacher": RademacherSketch,
    "tensor_srht": TensorSRHT,
    "tensor_sketch": TensorSketch,
    "balanced_tensor_sketch": BalancedTensorSketch,
    "tree_rademacher": RademacherTree,
    "tree_srht": SRHTTree,
}


def make_sketch(
    name: str,
    degree: int,
    n_projections: int,
    field: str = "real",
    *,
    weights: str | float | None = None,
    compact: int | None = None,
) -> Sketch:
    """The sketch of that name.

    `weights` is the distribution of the weights of "rademacher" (see RademacherSketch);
    `compact=c` sketches to c·D projections first and projects them down to D.

    >>> make_sketch("tensor_srht", 3, 64, "complex")
    TensorSRHT(degree=3, n_projections=64, field='complex')
    """
    one_of("sketch", name, SKETCHES)
    if compact is not None:
        more = positive_integer("compact", compact) * n_projections
        inner = make_sketch(name, degree, more, field, weights=weights)
        return CompactSketch.of(inner, n_projections)
    if weights is None:
        return SKETCHES[name](degree, n_projections, field)
    if name != "rademacher":
        raise ValueError(f'weights= is for sketch="rademacher"; got sketch={name!r}.')
    return RademacherSketch(degree, n_projections, field, weights)


def separable_sketch(name: str, field: str = "real") -> SeparableSketch:
    """A sketch of that name (degree 1, one projection) whose variance is known for every D."""
    sketch = make_sketch(name, 1, 1, field)
    if not isinstance(sketch, SeparableSketch):
        names = [n for n, kind in SKETCHES.items() if issubclass(kind, SeparableSketch)]
        raise ValueError(
            f"The variance of sketch={name!r} is not known for every number of projections at "
            f"once; use one of {', '.join(map(repr, names))}."
        )
    return sketch


__all__ = [
    "SKETCHES",
    "BalancedTensorSketch",
    "CompactSketch",
    "GaussianSketch",
    "MonomialSketch",
    "ProductSketch",
    "RademacherSketch",
    "RademacherTree",
    "SRHTTree",
    "SeparableSketch",
    "Sketch",
    "TensorSRHT",
    "TensorSketch",
    "TreeSketch",
    "make_sketch",
    "monomial_projections",
    "separable_sketch",
]
