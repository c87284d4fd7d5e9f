"""`python -m dotsketch.cli`, where the script `dotsketch` is not on the path."""

from .entry import main

if __name__ == "__main__":
    main()
