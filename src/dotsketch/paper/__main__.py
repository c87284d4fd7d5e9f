"""`python -m dotsketch.paper` is `dotsketch reproduce`."""

from .command import reproduce

if __name__ == "__main__":
    reproduce(prog_name="python -m dotsketch.paper")
