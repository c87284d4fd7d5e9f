"""The one error of this package."""


class PersistenceError(ValueError):
    """A value that cannot be saved, or a file that cannot be trusted; the message is one line."""
