"""`python -m dotsketch`, where the script `dotsketch` is not on the path."""

from dotsketch_command import main

if __name__ == "__main__":
    main()
