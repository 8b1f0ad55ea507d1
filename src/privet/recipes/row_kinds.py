"""What a row is: an image, or a row of a table. All that a run must know of it is public.

A kind is saved with the run, so that whoever loads its model knows what to give it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from privet.data.schema import Binary, Categorical, Ignored, Numeric, Schema, TableColumn
from privet.recipes.forms import Kind
from privet.recipes.models import ImageShape, Shape
from privet.recipes.presets import Preset


class RowKind(Protocol):
    """What is learned from."""

    @property
    def noun(self) -> str:
        """Of several, in words; models say which they take."""

    @property
    def one(self) -> str:
        """Of one, in words."""

    @property
    def shape(self) -> Shape:
        """Of one, as it lies behind the hedge."""

    @property
    def pixels(self) -> bool:
        """Whether inputs are bytes."""

    @property
    def treated_as_public(self) -> tuple[str, ...]:
        """What was declared or learned of public rows, for the certificate."""

    def suited(self, preset: Preset) -> Preset:
        """A preset, with what is different for these rows."""


@dataclass(frozen=True, kw_only=True)
class ImageRows:
    """Images of one shape."""

    noun: ClassVar[str] = "images"
    one: ClassVar[str] = "image"
    pixels: ClassVar[bool] = True
    treated_as_public: ClassVar[tuple[str, ...]] = ()

    shape: ImageShape

    def suited(self, preset: Preset) -> Preset:
        """As it is."""
        return preset


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

    schema: Schema
    declared: bool

    @property
    def shape(self) -> Shape:
        """One vector."""
        return (self.schema.width,)

    @property
    def treated_as_public(self) -> tuple[str, ...]:
        """Where bounds, categories and classes come from."""
        what = "bounds, categories and classes of the table's columns"
        return (f"{what}, as declared" if self.declared else f"public rows for {what}",)

    def suited(self, preset: Preset) -> Preset:
        """No views, and the network of Nasr et al. 2023."""
        return preset.on_table()


ROW_KINDS = {"images": Kind(ImageRows), "table": Kind(TableRows)}
TABLE_COLUMNS = {
    "numeric": Kind(Numeric),
    "binary": Kind(Binary),
    "categorical": Kind(Categorical),
    "ignored": Kind(Ignored),
}
SLOTS = {RowKind: ROW_KINDS, TableColumn: TABLE_COLUMNS}
"""Names of what is saved."""
