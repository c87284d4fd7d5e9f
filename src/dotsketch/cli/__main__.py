"""`python -m dotsketch.cli`, where the script `dotsketch` is not on the path."""

from .main import main

if __name__ == "__main__":
    main(prog_name="dotsketch")
