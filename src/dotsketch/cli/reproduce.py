"""`dotsketch reproduce`: the experiments of the paper, from `dotsketch.paper`."""

from ..paper.command import reproduce

__all__ = ["reproduce"]
