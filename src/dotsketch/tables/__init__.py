"""Tables of numbers, categories and dates as numbers: `TableEncoder`.

`columns` reads the values of a column of pandas, and `column` finds out over all chunks what it is;
both need pandas, an extra, and are imported when they are first used. The command line reads files
chunk by chunk with the same two and the same encoder.

Why not others: scikit-learn's `make_column_transformer` wants the columns of every kind named, and
has nothing for dates. skrub's `TableVectorizer` finds the kinds itself, and its defaults suit
trees: numbers and parts of dates are not scaled, and missing numbers stay NaN, so that distances
between rows, which kernels see, would depend on units. It also decides by a data frame in memory;
the command line reads files that are larger.
"""

from .encoder import TableEncoder

__all__ = ["TableEncoder"]
