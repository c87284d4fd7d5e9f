"""`python -m attacks [NAME …]`: a table of what happens; exits with 1 if an attack succeeded."""

import sys

from .harness import names, show

if __name__ == "__main__":
    sys.exit(show(*(sys.argv[1:] or names())))
