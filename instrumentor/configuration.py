"""Settings from `[tool.instrumentor]` in each file's nearest pyproject.toml; the command line overrides them."""

from __future__ import annotations

import difflib
import os
import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from instrumentor.errors import ConfigError
from instrumentor.paths.selection import DEFAULT_EXCLUDE, DEFAULT_INCLUDE, Patterns, SelectionRules
from instrumentor.settings import (
    RANKS_PATTERN,
    SIZE_PATTERN,
    Confidence,
    FactoryRule,
    LogLevel,
    Settings,
    StatisticsOf,
)

FILE_NAME = "pyproject.toml"
TABLE = "tool.instrumentor"
_LARGEST = 1 << 24
_EXAMPLES = {"ranks": "0,8-15", "max-size": "2G"}


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The settings given in one place, `[tool.instrumentor]` or the command line; the others are unset.

    The fields are documented in `Settings` and `SelectionRules`. If `factories` is a word, it means
    `wrap_factories`, so that the key has the name of the option.
    """

    logdir: str | UnsetType = UNSET
    log_level: LogLevel | UnsetType = UNSET
    statistics_of: StatisticsOf | UnsetType = UNSET
    first: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    every: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    ranks: Annotated[str, Meta(pattern=f"^{RANKS_PATTERN}$")] | UnsetType = UNSET
    max_size: Annotated[str, Meta(pattern=f"^{SIZE_PATTERN}$")] | UnsetType = UNSET
    flow: bool | UnsetType = UNSET
    recurse: bool | UnsetType = UNSET
    min_confidence: Confidence | UnsetType = UNSET
    select: tuple[str, ...] | UnsetType = UNSET
    skip: tuple[str, ...] | UnsetType = UNSET
    factories: FactoryRule | tuple[str, ...] | UnsetType = UNSET
    wrappers: tuple[str, ...] | UnsetType = UNSET
    identity_methods: tuple[str, ...] | UnsetType = UNSET
    module_classes: tuple[str, ...] | UnsetType = UNSET
    include: tuple[str, ...] | UnsetType = UNSET
    exclude: tuple[str, ...] | UnsetType = UNSET
    extend_exclude: tuple[str, ...] | UnsetType = UNSET
    respect_gitignore: bool | UnsetType = UNSET
    force_exclude: bool | UnsetType = UNSET


@dataclass(frozen=True)
class Configuration:
    """The configuration of one directory.

    Attributes:
        settings: what is written into scripts.
        rules: which files are selected.
        path: the file it comes from, if any.
    """

    settings: Settings
    rules: SelectionRules
    path: str | None = None


class Configurations:
    """Finds the configuration of a directory, reading each file once."""

    def __init__(self, overrides: Section | None = None, *, file: str | None = None, isolated: bool = False) -> None:
        """Set what the command line gives.

        Args:
            overrides: the options that were given; they win over every file.
            file: the only file to read, for every directory (`--config`).
            isolated: read no file.

        Raises:
            ConfigError: `file` cannot be read or is invalid.
        """
        self._overrides = overrides or Section()
        self._default = _combine(None, Section(), self._overrides)
        self._searches = not isolated and file is None
        self._found: dict[str, Configuration] = {}
        if file is not None and not isolated:
            section = _read_section(file)
            if section is None:
                raise ConfigError(f"has no [{TABLE}] table; add one, or name another file", path=file)
            self._default = _combine(file, section, self._overrides)

    def of_directory(self, directory: str) -> Configuration:
        """The configuration of `directory`, from the nearest file in it or above it.

        Raises:
            ConfigError: that file cannot be read or is invalid.
        """
        if not self._searches:
            return self._default
        return self._nearest(os.path.abspath(directory or "."))  # noqa: PTH100

    def _nearest(self, path: str) -> Configuration:
        found = self._found.get(path)
        if found is None:
            file = os.path.join(path, FILE_NAME)  # noqa: PTH118
            section = _read_section(file) if os.path.isfile(file) else None  # noqa: PTH113
            parent = os.path.dirname(path)  # noqa: PTH120
            if section is not None:
                found = _combine(file, section, self._overrides)
            else:
                found = self._default if parent == path else self._nearest(parent)
            self._found[path] = found
        return found


def _combine(file: str | None, section: Section, overrides: Section) -> Configuration:
    stated = {**_stated(section), **_stated(overrides)}
    settings = Settings(**{each.name: stated[each.name] for each in fields(Settings) if each.name in stated})
    if not settings.logdir:
        raise ConfigError("logdir is empty; name a directory such as proxy_trace", path=file)
    base = os.path.dirname(file) if file else ""  # noqa: PTH120

    def patterns(name: str, default: tuple[str, ...]) -> Patterns:
        from_command = getattr(overrides, name)
        return Patterns(stated.get(name, default), "" if from_command is not UNSET else base)

    # The command line's additions extend the file's; each is relative to its own place.
    extending = [
        Patterns(each.extend_exclude, at) for each, at in ((section, base), (overrides, "")) if each.extend_exclude
    ]
    rules = SelectionRules(
        include=patterns("include", DEFAULT_INCLUDE),
        exclude=(patterns("exclude", DEFAULT_EXCLUDE), *extending),
        respect_gitignore=stated.get("respect_gitignore", SelectionRules.respect_gitignore),
        force_exclude=stated.get("force_exclude", SelectionRules.force_exclude),
    )
    return Configuration(settings, rules, file)


def _stated(section: Section) -> dict[str, Any]:
    values = {name: getattr(section, name) for name in section.__struct_fields__}
    if isinstance(section.factories, str):
        values["wrap_factories"] = values.pop("factories")
    return {name: value for name, value in values.items() if value is not UNSET}


def _read_section(file: str) -> Section | None:
    """Read a file's table; None if it has none.

    A file not named pyproject.toml may have the keys at the top level, unless it has `[tool]` tables.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or holds an invalid setting.
    """
    # Imported only when there is a file to read: most parent folders have none.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ConfigError("is too large for a configuration file; name another file with --config", path=file)
        text = content.decode("utf-8").replace("\r\n", "\n")
        document = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror}); name another file with --config", path=file) from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8, which TOML requires", path=file) from None
    except (ValueError, RecursionError) as error:  # from deep nesting, and from numbers with thousands of digits
        raise ConfigError(f"is not TOML: {error}", path=file) from None
    table: Any = document
    for part in TABLE.split("."):
        table = table.get(part) if isinstance(table, dict) else None
    if table is None:
        if Path(file).name == FILE_NAME or "tool" in document:
            return None
        table = document
    if not isinstance(table, dict):
        raise ConfigError(f"{TABLE} is not a table; write [{TABLE}]", path=file, line=_line_of(text, "instrumentor"))
    _refuse_unknown_keys(table, text, file)
    try:
        return msgspec.convert(table, Section)
    except msgspec.ValidationError as error:
        detail, _, place = str(error).partition(" - at `$.")
        key = re.split(r"[`.\[]", place)[0]
        message = f"{key}: {detail[:1].lower()}{detail[1:]}; {_describe_values(key)}"
        raise ConfigError(message, path=file, line=_line_of(text, key)) from None


def _describe_values(key: str) -> str:
    """Describe the values that a key takes, with an example."""
    kinds = get_type_hints(Section)[key.replace("-", "_")].__args__
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    if choices:
        listed = ', or write a list of strings, ["..."]' if any(get_origin(kind) is tuple for kind in kinds) else ""
        return f"choose {', '.join(map(_quote, choices[:-1]))} or {_quote(choices[-1])}{listed}"
    if bool in kinds:
        return "write true or false"
    if int in kinds:
        return f"write a whole number, {key} = 10"
    if key in _EXAMPLES:
        return f'write a string such as {key} = "{_EXAMPLES[key]}"'
    return f'write a string, {key} = "..."' if str in kinds else f'write a list of strings, {key} = ["..."]'


def _quote(text: str) -> str:
    return f'"{text}"'


def _refuse_unknown_keys(table: dict[str, Any], text: str, file: str) -> None:
    known = Section.__struct_encode_fields__
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key.replace("_", "-"), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(known)}"
            raise ConfigError(f"{key} is not a setting of this tool; {hint}", path=file, line=_line_of(text, key))


def _line_of(text: str, key: str) -> int | None:
    """The line that sets a key, which the TOML parser does not report."""
    assignment = re.compile(rf"""\s*(?:[\w."'-]+\s*\.\s*)?["']?{re.escape(key)}["']?\s*=|\s*\[\s*{re.escape(TABLE)}""")
    header = re.compile(r"\s*\[\s*([^\]]+?)\s*\]")
    inside = f"[{TABLE}]" not in text
    for number, line in enumerate(text.splitlines(), start=1):
        if (found := header.match(line)) is not None:
            inside = f"{TABLE}.".startswith(f"{found[1]}.")
        elif inside and assignment.match(line):
            return number
    return None
