"""What a row is: an image, a row of a table, or a sequence of words.

All that a run must know of it is public.

A kind is saved with the run, so that whoever loads its model knows what to give it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from privet.data.schema import Binary, Categorical, Ignored, Numeric, Schema, TableColumn
from privet.data.text import LENGTH
from privet.learn import AsIs, MaskedWords
from privet.learn.objective import Loss, cross_entropy, word_cross_entropy
from privet.learn.views import Views
from privet.recipes.forms import Kind
from privet.recipes.model import ImageShape, Shape
from privet.recipes.presets import Preset


class RowKind(Protocol):
    """The kind of rows that a model learns from."""

    @property
    def noun(self) -> str:
        """The word for several rows, such as `images`; models say which they take."""

    @property
    def one(self) -> str:
        """The word for one row."""

    @property
    def shape(self) -> Shape:
        """The shape of one row, as it lies behind the hedge."""

    @property
    def pixels(self) -> bool:
        """Whether inputs are bytes."""

    @property
    def words(self) -> bool:
        """Whether inputs and targets are sequences of word numbers."""

    @property
    def loss(self) -> Loss:
        """The loss that training makes small, one number per view."""

    @property
    def treated_as_public(self) -> tuple[str, ...]:
        """What the certificate lists as public: what was declared or learned of public rows."""

    def suited(self, preset: Preset) -> Preset:
        """Return a preset with what is different for these rows."""

    def views_fit(self, views: Views) -> bool:
        """Whether such views of these rows make sense."""


@dataclass(frozen=True, kw_only=True)
class ImageRows:
    """Images of one shape."""

    noun: ClassVar[str] = "images"
    one: ClassVar[str] = "image"
    pixels: ClassVar[bool] = True
    words: ClassVar[bool] = False
    loss: ClassVar[Loss] = staticmethod(cross_entropy)
    treated_as_public: ClassVar[tuple[str, ...]] = ()

    shape: ImageShape

    def suited(self, preset: Preset) -> Preset:
        """Return the preset as it is."""
        return preset

    def views_fit(self, views: Views) -> bool:
        """Whether such views make sense: all but blanked-out words do."""
        return not isinstance(views, MaskedWords)


@dataclass(frozen=True, kw_only=True)
class TableRows:
    """Rows of a table.

    Args:
        schema: what its columns hold.
        declared: whether someone wrote it; else public rows gave it.
    """

    noun: ClassVar[str] = "rows"
    one: ClassVar[str] = "row"
    pixels: ClassVar[bool] = False
    words: ClassVar[bool] = False
    loss: ClassVar[Loss] = staticmethod(cross_entropy)

    schema: Schema
    declared: bool

    @property
    def shape(self) -> Shape:
        """The shape of one row: a vector of as many numbers as its schema has."""
        return (self.schema.width,)

    @property
    def treated_as_public(self) -> tuple[str, ...]:
        """What the certificate says of the origin of bounds, categories and classes."""
        what = "bounds, categories and classes of the table's columns"
        return (f"{what}, as declared" if self.declared else f"public rows for {what}",)

    def suited(self, preset: Preset) -> Preset:
        """Return a preset without views, with the network of Nasr et al. 2023."""
        return preset.on_table()

    def views_fit(self, views: Views) -> bool:
        """Whether such views make sense: none but the row itself does."""
        return isinstance(views, AsIs)


@dataclass(frozen=True, kw_only=True)
class TextRows:
    """Sequences of words, by their numbers in a vocabulary.

    Args:
        length: how many words each has.
        causal: whether each word is predicted from those before it; else from all others.
    """

    noun: ClassVar[str] = "sequences"
    one: ClassVar[str] = "sequence"
    pixels: ClassVar[bool] = False
    words: ClassVar[bool] = True
    loss: ClassVar[Loss] = staticmethod(word_cross_entropy)
    treated_as_public: ClassVar[tuple[str, ...]] = (
        "public text for the vocabulary",
        f"where text was cut into sequences of {LENGTH} words, of which each is one example",
    )

    length: int
    causal: bool

    @property
    def shape(self) -> Shape:
        """The shape of one sequence: as many numbers as words."""
        return (self.length,)

    def suited(self, preset: Preset) -> Preset:
        """Return a preset with the two blocks of Nasr et al. 2023."""
        return preset.on_text(causal=self.causal)

    def views_fit(self, views: Views) -> bool:
        """Whether such views make sense: the sequence itself if causal, else with blanks.

        A model that sees all words has nothing to predict.
        """
        return isinstance(views, AsIs if self.causal else MaskedWords)


ROW_KINDS = {"images": Kind(ImageRows), "table": Kind(TableRows), "text": Kind(TextRows)}
TABLE_COLUMNS = {
    "numeric": Kind(Numeric),
    "binary": Kind(Binary),
    "categorical": Kind(Categorical),
    "ignored": Kind(Ignored),
}
SLOTS = {RowKind: ROW_KINDS, TableColumn: TABLE_COLUMNS}
"""Names of kinds of rows and columns, as configurations save them."""
