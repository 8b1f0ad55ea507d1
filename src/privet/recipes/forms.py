"""Nested frozen dataclasses as plain JSON values, and as text that a person types; and back.

Both directions follow the type annotations. Where an annotation names a slot, which several classes
may fill, a table gives each of them a name: `kind` in JSON, the first word in text.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from privet.data.guard import shown
from privet.errors import ConfigError, DataError
from privet.plain_json import WRONG_VALUES

Hint: TypeAlias = Any


@dataclass(frozen=True)
class Kind:
    """A class, and the fields that its name alone decides."""

    cls: type
    fixed: Mapping[str, Any] = field(default_factory=dict)


Table = Mapping[str, Kind]


@dataclass(frozen=True)
class Forms:
    """What the names in each slot mean.

    Args:
        tables: for the annotation of each slot, its names.
    """

    tables: Mapping[Hint, Table]

    def plain(self, hint: Hint, value: Any) -> Any:
        """Turn a value into plain JSON values."""
        if (table := self._table(hint)) is not None:
            name, kind = _named(table, value)
            return {"kind": name, **self._plain_fields(value, without=kind.fixed)}
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, tuple):
            return [self.plain(_element(hint), each) for each in value]
        return self._plain_fields(value) if is_dataclass(value) else value

    def made(self, hint: Hint, body: Any, where: str) -> Any:
        """Rebuild the value that `plain` was given; `where` names it in refusals."""
        if (table := self._table(hint)) is not None:
            body = dict(body)
            kind = _looked_up(table, body.pop("kind", None), where)
            return self._made_fields(kind.cls, {**body, **kind.fixed}, where)
        if hint is Any or (body is None and _without_none(hint) is not hint):
            return body
        hint = _without_none(hint)
        if isinstance(hint, type) and is_dataclass(hint):
            return self._made_fields(hint, body, where)
        if _form(hint) is tuple:
            if not isinstance(body, list | tuple):
                raise ConfigError(f"{where} is {body!r}, which is no list.")
            found = tuple(self.made(_element(hint), each, where) for each in body)
            return _of_length(found, list(get_args(hint)[1:]), where)
        return _checked(hint, body, where)

    def restored(self, cls: type, body: Any) -> Any:
        """Rebuild a saved configuration; refuse as bad data what cannot be one."""
        try:
            return self.made(cls, body, "config")
        except (ConfigError, *WRONG_VALUES) as error:
            raise DataError(f"The configuration cannot be read ({shown(error)}).") from None

    def read(
        self, hint: Hint, text: str, where: str, defaults: Mapping[type, Any] | None = None
    ) -> Any:
        """Read the value that `name[:key=value,...]` stands for.

        Args:
            hint: the annotation of the slot.
            text: what was typed.
            where: the option's name, for refusals.
            defaults: what a dataclass, named or nested, starts from, by its class.
        """
        name, _, rest = text.partition(":")
        kind = _looked_up(self.tables[hint], name, where)
        keys = _pairs(rest, where)
        made = self._read_fields(kind.cls, keys, where, defaults or {}, kind.fixed)
        if keys:
            known = ", ".join(dict.fromkeys(self._keys(kind.cls, kind.fixed))) or "none"
            raise ConfigError(
                f"{where} {name} has no setting {next(iter(keys))!r}: it takes {known}."
            )
        return made

    def _table(self, hint: Hint) -> Table | None:
        try:
            return self.tables.get(hint)
        except TypeError:  # an annotation that cannot be a key is no slot
            return None

    def _plain_fields(self, value: Any, without: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {
            each.name: self.plain(hint, getattr(value, each.name))
            for each, hint in _fields(type(value))
            if each.name not in (without or {})
        }

    def _made_fields(self, cls: type, body: Mapping[str, Any], where: str) -> Any:
        known = {each.name: hint for each, hint in _fields(cls)}
        odd = sorted(known.keys() ^ body.keys()) if isinstance(body, Mapping) else ["everything"]
        if odd:
            raise ConfigError(f"{where} differs from what this Privet knows in {odd[0]!r}.")
        return cls(
            **{name: self.made(hint, body[name], f"{where}.{name}") for name, hint in known.items()}
        )

    def _read_fields(
        self,
        cls: type,
        keys: dict[str, str],
        where: str,
        defaults: Mapping[type, Any],
        fixed: Mapping[str, Any],
    ) -> Any:
        """Take one's own keys out of those that were typed; nested fields take what is left."""
        given: dict[str, Any] = _values(defaults[cls]) if cls in defaults else {}
        given |= fixed
        nested: dict[str, Hint] = {}
        for each, hint in _fields(cls):
            if each.name in fixed:
                continue
            if (table := self._table(hint)) is not None:
                kind = _looked_up(table, keys.pop(each.name, next(iter(table))), where)
                given[each.name] = self._read_fields(kind.cls, keys, where, defaults, kind.fixed)
            elif is_dataclass(_without_none(hint)):
                nested[each.name] = hint
            elif each.name in keys:
                given[each.name] = _number(hint, keys.pop(each.name), f"{where} {each.name}")
        for name, hint in nested.items():
            given |= self._read_nested(name, hint, keys, where, defaults)
        return cls(**given)

    def _read_nested(
        self, name: str, hint: Hint, keys: dict[str, str], where: str, defaults: Mapping[type, Any]
    ) -> dict[str, Any]:
        """Read a nested dataclass; nothing if it may be None and no key of it was typed."""
        cls = _without_none(hint)
        own = {
            each.name: _number(inner, keys.pop(each.name), f"{where} {each.name}")
            for each, inner in _fields(cls)
            if each.name in keys
        }
        if not own and cls is not hint:
            return {}
        return {name: replace(defaults.get(cls) or cls(), **own)}

    def _keys(self, cls: type, fixed: Mapping[str, Any]) -> Iterator[str]:
        for each, hint in _fields(cls):
            if each.name in fixed:
                continue
            if (table := self._table(hint)) is not None:
                yield each.name
                yield from self._keys(next(iter(table.values())).cls, {})
            elif is_dataclass(inner := _without_none(hint)):
                yield from (nested.name for nested, _ in _fields(inner))
            else:
                yield each.name


def _values(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value) if each.init}


def _fields(cls: Any) -> list[tuple[Field[Any], Hint]]:
    """The fields that a dataclass is made of, with their types."""
    hints = get_type_hints(cls)
    return [(each, hints[each.name]) for each in fields(cls) if each.init]


def _named(table: Table, value: Any) -> tuple[str, Kind]:
    for name, kind in table.items():
        if type(value) is kind.cls and all(
            getattr(value, key) == fixed for key, fixed in kind.fixed.items()
        ):
            return name, kind
    raise ConfigError(f"{type(value).__name__} has no name here, so it cannot be saved.")


def _looked_up(table: Table, name: object, where: str) -> Kind:
    if name not in table:
        raise ConfigError(f"{where} is {name!r}: choose {', '.join(table)}.")
    return table[str(name)]


def _pairs(text: str, where: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value) or key in pairs:
            raise ConfigError(f"{where} has {part!r}: write name:key=value,key=value.")
        pairs[key] = value
    return pairs


def _form(hint: Hint) -> Any:
    """The generic type of an annotation: `tuple` for `tuple[int, ...]`."""
    return get_origin(hint)


def _element(hint: Hint) -> Hint:
    """The annotation of a tuple's elements."""
    return get_args(_without_none(hint))[0] if get_args(hint) else Any


def _without_none(hint: Hint) -> Hint:
    if _form(hint) in (Union, types.UnionType):
        [hint] = (each for each in get_args(hint) if each is not type(None))
    return hint


def _checked(hint: Hint, body: Any, where: str) -> Any:
    """Return a plain value; refuse one that is not of the annotated type."""
    if _form(hint) is Literal:
        if body not in get_args(hint):
            raise ConfigError(f"{where} is {body!r}: choose {', '.join(get_args(hint))}.")
        return body
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(body)
    wanted = (int, float) if hint is float else hint
    if not isinstance(body, wanted) or (isinstance(body, bool) and hint is not bool):
        raise ConfigError(f"{where} is {body!r}, which is no {hint.__name__}.")
    return hint(body)


def _of_length(values: tuple[Any, ...], others: list[Hint], where: str) -> tuple[Any, ...]:
    """Return the values; refuse more or fewer than the annotation has (`...` is any number)."""
    if others != [...] and len(values) != 1 + len(others):
        raise ConfigError(f"{where} are {len(values)} numbers: give {1 + len(others)}.")
    return values


def _number(hint: Hint, text: str, where: str) -> Any:
    """Convert a typed word to the annotated type."""
    hint = _without_none(hint)
    if hint is bool:
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{where} is {text!r}: give true or false.")
        return text.lower() == "true"
    try:
        if _form(hint) is tuple:  # 200-100
            kind, *others = get_args(hint)
            return _of_length(tuple(kind(part) for part in text.split("-")), others, where)
        return hint(text) if hint in (int, float) else text
    except ValueError:
        kind = "a whole number" if hint is int else "a number"
        kind = "whole numbers such as 200-100" if _form(hint) is tuple else kind
        raise ConfigError(f"{where} is {text!r}: give {kind}.") from None
