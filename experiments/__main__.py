"""`python -m experiments fig5 --quick`: run experiments of the paper."""

from .command import reproduce

if __name__ == "__main__":
    reproduce(prog_name="python -m experiments")
