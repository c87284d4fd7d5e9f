"""A table as numbers: the transformer, and what it keeps of every column."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._support.stored import array, stored

KINDS = ("number", "date", "text")  # in the order of the columns that are returned


@stored
class EncodedColumn(NamedTuple):
    """A column of the table, and the numbers that it gives."""

    name: str
    kind: str
    names: list[str]  # of the numbers
    means: Annotated[np.ndarray, array("f", "k")]  # of numbers and dates
    scales: Annotated[np.ndarray, array("f", "k")]
    format: str  # of dates
    levels: list[str]  # of texts
    has_gaps: bool  # whether values were missing: there is an indicator


@stored
class TableEncoder(TransformerMixin, BaseEstimator):
    """Numbers, categories, dates and missing values of a table as a matrix of numbers.

    - Numbers are standardized. Texts that are all numbers are numbers.
    - Categories (texts, booleans, columns named in `categorical`) become one column of 0 and 1 per
      level, so that two levels are at squared distance 2, as two numbers are on average. A level
      that was not seen is all zeros.
    - Dates, and texts that are dates of one format, become the year with its fraction, the month,
      the day of the week (Monday is 0) and the time in hours, standardized.
    - A missing number is the mean, a missing category all zeros. Every column with missing values
      has an indicator, the last columns of the result.

    Parameters
    ----------
    categorical : list of str, default=()
        Columns of numbers that are categories.
    max_levels : int, default=50
        Texts with more levels are refused: they are identifiers or free text.
    standardize : bool, default=True
        False leaves numbers as they are, for kernels between nonnegative rows.

    Attributes
    ----------
    columns_ : list of EncodedColumn, numbers first, then dates, then categories
    feature_names_in_, n_features_in_ : the columns of the table

    Notes
    -----
    Tables are data frames of pandas or polars, or tables of pyarrow; pandas and pyarrow have to be
    installed.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from dotsketch import FeatureGPRegressor
    >>> frame = pd.DataFrame({"size": [80.0, None, 120.0], "town": ["Bern", "Basel", "Bern"]})
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.get_feature_names_out()
    array(['size', 'town_Basel', 'town_Bern', 'size (missing)'], dtype=object)
    >>> encoder.transform(frame)
    array([[-1.,  0.,  1.,  0.],
           [ 0.,  1.,  0.,  1.],
           [ 1.,  0.,  1.,  0.]])
    >>> model = make_pipeline(TableEncoder(), FeatureGPRegressor())
    """

    def __init__(
        self, *, categorical: Sequence[str] = (), max_levels: int = 50, standardize: bool = True
    ):
        self.categorical = categorical
        self.max_levels = max_levels
        self.standardize = standardize

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Find out what the columns of a table are. The problems of all are reported together."""
        column = import_module(".column", __package__)  # needs pandas
        table = column.data_frame(X)
        unknown = sorted(set(self.categorical) - set(table))
        if unknown:
            raise ValueError(f"categorical names {unknown}, which the table does not have.")
        columns, problems = [], []
        for name in table:
            is_category = name in self.categorical
            values = column.Column(name, self.max_levels, is_category=is_category, impute=True)
            try:
                values.add(table[name], 1)
                values.check_kind()
            except column.Problem as problem:
                problems.append(str(problem))
            columns.append(values)
        if problems or not columns:
            raise ValueError(" | ".join(problems) or "The table has no columns.")
        return self.set_columns(columns)

    def set_columns(self, columns: Sequence[Any]) -> TableEncoder:
        """Be fitted to the rows that these `Column` values have seen."""
        encoded = []
        for column in sorted(columns, key=lambda column: KINDS.index(column.kind)):
            is_text, levels = column.kind == "text", sorted(column.levels)
            empty = np.empty(0)
            encoded.append(
                EncodedColumn(
                    column.name,
                    column.kind,
                    [f"{column.name}_{level}" for level in levels] if is_text else column.inputs,
                    empty if is_text else column.input_scaler.mean_,
                    empty if is_text else column.input_scaler.scale_,
                    next(iter(column.dates), ""),
                    levels,
                    column.n_missing > 0,
                )
            )
        self.columns_ = encoded
        self.feature_names_in_ = np.array([column.name for column in columns], dtype=object)
        self.n_features_in_ = len(columns)
        return self

    def transform(self, X: Any) -> np.ndarray:  # table of n rows -> (n, d)
        check_is_fitted(self)
        return self.encode(import_module(".column", __package__).data_frame(X), impute=True)[0]

    def encode(
        self, table: Any, first_row: int = 1, **words: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (n, d), (n, k), (n, k)
        """Rows of a data frame of pandas as numbers, and for each of its k columns where values are
        missing, and where they are categories that the fit has not seen.

        `words` are those of `Column`; rows count from `first_row`. ValueError with the problems of
        all columns.
        """
        column = import_module(".column", __package__)
        lacking = [c.name for c in self.columns_ if c.name not in table]
        if lacking:
            raise ValueError(f"The table lacks columns that the encoder has seen: {lacking}.")
        blocks, missing, unseen, problems = [], [], [], []
        for fitted in self.columns_:
            reader = column.Column(fitted.name, 0, **words)
            try:
                block, gaps, new = self._block(fitted, reader, table[fitted.name], first_row)
                reader.check_missing(gaps, first_row)
            except column.Problem as problem:
                problems.append(str(problem))
                continue
            blocks.append(block)
            missing.append(gaps)
            unseen.append(new)
        if problems:
            raise ValueError(" | ".join(problems))
        indicators = [
            gaps[:, None] for c, gaps in zip(self.columns_, missing, strict=True) if c.has_gaps
        ]
        X = np.concatenate([*blocks, *indicators], axis=1, dtype=np.float64)
        return X, np.stack(missing, axis=1), np.stack(unseen, axis=1)

    def _block(
        self, fitted: EncodedColumn, reader: Any, values: Any, first_row: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (n, k), (n,), (n,)
        """The numbers of one column, where it has no value, and where it has an unseen one."""
        if fitted.kind == "text":
            texts = reader.texts(values)
            missing = texts == ""  # never a level
            block = texts[:, None] == np.array(fitted.levels, dtype=object)
            return block, missing, ~missing & ~block.any(axis=1)
        if fitted.kind == "date":
            block = reader.date_parts(values, fitted.format)
        else:
            block = reader.numbers(values, first_row)[:, None]
        missing = np.isnan(block[:, 0])
        block = np.where(missing[:, None], fitted.means, block)
        if self.standardize:
            block = (block - fitted.means) / fitted.scales
        return block, missing, np.zeros(len(block), dtype=bool)

    @property
    def slices_(self) -> dict[str, slice]:
        """The columns of the result that every column of the table gives."""
        ends = np.cumsum([len(column.names) for column in self.columns_]).tolist()
        starts = [0, *ends]
        names = [column.name for column in self.columns_]
        return dict(zip(names, map(slice, starts, ends), strict=False))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        check_is_fitted(self)
        names = [name for column in self.columns_ for name in column.names]
        names += [f"{column.name} (missing)" for column in self.columns_ if column.has_gaps]
        return np.array(names, dtype=object)

    def check_stored(self) -> None:
        """Raise ValueError unless the columns of a model file are as `fit` makes them."""
        for column in getattr(self, "columns_", ()):
            is_text = isinstance(column, EncodedColumn) and column.kind == "text"
            if not isinstance(column, EncodedColumn) or column.kind not in KINDS:
                raise ValueError("TableEncoder.columns_ are not columns.")
            n_scales = 0 if is_text else 4 if column.kind == "date" else 1
            if len(column.means) != n_scales or len(column.names) != (
                len(column.levels) if is_text else n_scales
            ):
                raise ValueError(f"The numbers of the column {column.name!r} do not fit.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags
